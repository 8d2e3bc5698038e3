// Identifiers, resource names and the names of checkpoints on the command line: whatever is
// accepted can stand in a path below the data folder.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/identifiers.h"
#include "client/cli/checkpoint_name.h"
#include "tests/fuzz/fuzz.h"

using namespace lorsa;  // NOLINT

namespace {

bool IsOneSafePathComponent(absl::string_view id) {
  const auto is_letter_or_digit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  };
  const auto is_safe = [&](char c) {
    return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.';
  };
  return !id.empty() && id.size() < 64 && is_letter_or_digit(id[0]) &&
         std::all_of(id.begin(), id.end(), is_safe);
}

bool IsPrintable(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text = fuzz::AsText(data, size);
  const absl::Status valid = ValidateId("id", text);
  FUZZ_CHECK(valid.ok() == IsOneSafePathComponent(text));
  FUZZ_CHECK(valid.ok() || (valid.message().size() < 256 && IsPrintable(valid.message())));
  const auto id = IdFromName("jobs", text);
  FUZZ_CHECK(id.ok() ? text == absl::StrCat("jobs/", *id) && IsOneSafePathComponent(*id)
                     : IsPrintable(id.status().message()));
  const auto name = cli::CheckpointName(std::string(text));
  if (name.ok()) FUZZ_CHECK(cli::CheckpointName(*name) == name);
  return 0;
}
