// What the server needs to know of a checkpoint's config.json and state.json
// (docs/checkpoint_format.md). Knows nothing of tensors.
#ifndef LORSA_SERVER_JOBS_CHECKPOINT_CONTENTS_H_
#define LORSA_SERVER_JOBS_CHECKPOINT_CONTENTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "server/catalog/catalog.h"
#include "trainer/config/checkpoint_config.h"

namespace lorsa::server {

inline constexpr char kConfigFile[] = "config.json";
inline constexpr char kStateFile[] = "state.json";

struct CheckpointContents {
  trainer::CheckpointConfig config;
  int64_t step = 0, sequences = 0;  // 0 without state.json, which another program need not write
  std::optional<double> fvu;        // of the newest evaluation
  int64_t evaluated_step = 0;       // its step

  int64_t tokens() const { return sequences * config.context; }
};

// INVALID_ARGUMENT for a file of JSON that is longer than 1 MiB.
absl::Status CheckJsonSize(FileSystem& fs, const std::string& path);

// INVALID_ARGUMENT naming the file that is not of its form.
absl::StatusOr<CheckpointContents> ReadCheckpointContents(FileSystem& fs,
                                                          const std::string& folder);

// A job that shows what its checkpoint is of, and never ran here.
NewJob JobOfCheckpoint(const std::string& job_id, const CheckpointContents& contents);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_CHECKPOINT_CONTENTS_H_
