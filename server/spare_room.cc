#include "server/spare_room.h"

#include <spdlog/spdlog.h>

#include "server/jobs/job_environment.h"

namespace lorsa::server {
namespace {

constexpr uint64_t kFreeBytes = 8 * kSpareRoomBytes;

}  // namespace

void KeepSpareRoom(FileSystem& fs, const DataLayout& layout) {
  const absl::StatusOr<bool> exists = fs.Exists(layout.SpareRoomFile());
  if (!exists.ok() || *exists) return;
  if (fs.FreeBytes(layout.root()).value_or(0) < kFreeBytes) return;
  // Random, since some disks compress. What fails is tried again.
  WriteFileAtomically(fs, layout.SpareRoomFile(), SystemRandomBytes(kSpareRoomBytes)).IgnoreError();
}

bool GiveUpSpareRoom(FileSystem& fs, const DataLayout& layout) {
  if (!fs.Remove(layout.SpareRoomFile()).ok()) return false;
  spdlog::info("event=spare_room_given_up bytes={}", kSpareRoomBytes);
  return true;
}

}  // namespace lorsa::server
