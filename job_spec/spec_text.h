// A training specification as people write it: textproto or JSON, by Protobuf's own parsers.
#ifndef LORSA_JOB_SPEC_SPEC_TEXT_H_
#define LORSA_JOB_SPEC_SPEC_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "lorsa/v1/training_spec.pb.h"

namespace lorsa {

// Longest specification accepted, in bytes.
inline constexpr uint64_t kMaxSpecBytes = 1 << 20;

// INVALID_ARGUMENT naming line, column and what is wrong there; an unknown field is an error.
// `origin` (a file name) begins the message.
absl::StatusOr<v1::TrainingSpec> ParseTrainingSpecText(absl::string_view origin,
                                                       const std::string& text);
absl::StatusOr<v1::TrainingSpec> ParseTrainingSpecJson(absl::string_view origin,
                                                       const std::string& json);

// A file: JSON if its name ends in .json, else textproto.
absl::StatusOr<v1::TrainingSpec> ReadTrainingSpec(FileSystem& fs, const std::string& path);

}  // namespace lorsa

#endif  // LORSA_JOB_SPEC_SPEC_TEXT_H_
