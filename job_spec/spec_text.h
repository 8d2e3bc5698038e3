// Job specifications as people write them.
#ifndef LORSA_JOB_SPEC_SPEC_TEXT_H_
#define LORSA_JOB_SPEC_SPEC_TEXT_H_

#include <istream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "lorsa/v1/training_spec.pb.h"

namespace lorsa {

// The text of a specification and where it came from.
struct SpecText {
  std::string source;  // a file's name, "standard input" or "the command line"
  std::string text;
  bool json = false;
};

// Whether a specification's text is JSON: it begins with '{'.
bool IsJson(absl::string_view text);

// From the words of a command line: one word is "-" (read `in`), the name of a file, or the
// specification itself; more than one are the specification itself. Text longer than 1 MiB is
// RESOURCE_EXHAUSTED. It is JSON if IsJson or the file's name ends in .json.
absl::StatusOr<SpecText> ReadSpecText(const std::vector<std::string>& words, std::istream& in,
                                      FileSystem& fs);

// INVALID_ARGUMENT naming source, line and column (JSON: what Protobuf says) for text that does
// not parse, an unknown field included.
absl::StatusOr<v1::TrainingSpec> ParseSpec(const SpecText& spec);

}  // namespace lorsa

#endif  // LORSA_JOB_SPEC_SPEC_TEXT_H_
