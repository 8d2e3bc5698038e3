// A file that takes up some room on the disk of the data folder: once the disk is full it is given
// up, so that the catalog can note what a client deletes.
#ifndef LORSA_SERVER_SPARE_ROOM_H_
#define LORSA_SERVER_SPARE_ROOM_H_

#include <cstdint>

#include "base/file_system.h"
#include "server/model/data_layout.h"

namespace lorsa::server {

// The catalog's log has to hold a deletion; its checkpoints come every 4 MiB.
inline constexpr int64_t kSpareRoomBytes = 4 << 20;

// Makes the file if it is missing and the disk has many times its size free. Best effort.
void KeepSpareRoom(FileSystem& fs, const DataLayout& layout);

// True if there was something to give up.
bool GiveUpSpareRoom(FileSystem& fs, const DataLayout& layout);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SPARE_ROOM_H_
