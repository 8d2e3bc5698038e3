// Sends the files of an activation set to the server.
#ifndef LORSA_CLIENT_SET_UPLOAD_H_
#define LORSA_CLIENT_SET_UPLOAD_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "lorsa/client/client.h"

namespace lorsa::client {

// Called on the uploading thread; each may be empty.
struct UploadCallbacks {
  // After each piece; bytes of all files, those that the server has already included.
  std::function<void(int64_t bytes_done, int64_t bytes_total)> on_progress;
  OutageFunction on_outage;
};

// Sends the shards of `folder`, and attention.safetensors, checksums.h5 and manifest.json if they
// are there, as activation set `id`; what else lies there is left. Goes on where an earlier try
// ended, after a broken connection by itself. Once it returns OK the server has all of them, each
// compared with its sha256, and the set can be registered. NOT_FOUND if the folder holds no shard,
// ALREADY_EXISTS if the server has other files under this id, FAILED_PRECONDITION for a file that
// changes meanwhile; else what the server says.
absl::Status UploadSet(Client& client, const std::string& id, const std::string& folder,
                       const UploadCallbacks& callbacks);

}  // namespace lorsa::client

#endif  // LORSA_CLIENT_SET_UPLOAD_H_
