// Download of a checkpoint, verified and resumable.
#ifndef LORSA_CLIENT_CHECKPOINT_DOWNLOAD_H_
#define LORSA_CLIENT_CHECKPOINT_DOWNLOAD_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "lorsa/client/client.h"
#include "lorsa/v1/checkpoint_service.pb.h"

namespace lorsa::client {

// Called on the downloading thread; each may be empty.
struct DownloadCallbacks {
  // After each chunk; bytes of all files, those found from an earlier try included.
  std::function<void(int64_t bytes_done, int64_t bytes_total)> on_progress;
  OutageFunction on_outage;
};

// Puts the files of the checkpoint `name` (jobs/{job}/checkpoints/{checkpoint}; best and latest
// too) into `folder`, which appears whole and verified or not at all. Until then they are in
// `folder`.partial, from where the next try goes on, after a broken connection by itself. A
// `folder` that holds these very files already is success; any other that is not empty,
// ALREADY_EXISTS. One download per folder at a time.
// DATA_LOSS if bytes keep arriving damaged or a file's sha256 is not the listed one,
// RESOURCE_EXHAUSTED if the disk has no room, INVALID_ARGUMENT for a list of files that no honest
// server sends (nothing is written then).
absl::StatusOr<v1::Checkpoint> DownloadCheckpoint(Client& client, const std::string& name,
                                                  const std::string& folder,
                                                  const DownloadCallbacks& callbacks);

}  // namespace lorsa::client

#endif  // LORSA_CLIENT_CHECKPOINT_DOWNLOAD_H_
