#include "base/identifiers.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace lorsa {
namespace {

constexpr size_t kMaxIdLength = 63;

bool IsLowerAlphanumeric(char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c); }

bool IsIdCharacter(char c) { return IsLowerAlphanumeric(c) || c == '-' || c == '_' || c == '.'; }

// What the message shows of a refused id: bounded and printable, whatever the client sent.
std::string Shown(absl::string_view id) {
  std::string shown(id.substr(0, kMaxIdLength + 1));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return !absl::ascii_isprint(c); }, '?');
  return shown;
}

}  // namespace

absl::Status ValidateId(absl::string_view what, absl::string_view id) {
  if (!id.empty() && id.size() <= kMaxIdLength && IsLowerAlphanumeric(id.front()) &&
      std::all_of(id.begin(), id.end(), IsIdCharacter)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what, " '", Shown(id), "' is not valid: use 1 to ", kMaxIdLength,
                   " of a-z, 0-9, '-', '_' and '.', beginning with a letter or digit"));
}

absl::StatusOr<std::string> IdFromName(absl::string_view collection, absl::string_view name) {
  absl::string_view id = name;
  if (!absl::ConsumePrefix(&id, collection) || !absl::ConsumePrefix(&id, "/")) {
    return absl::InvalidArgumentError(
        absl::StrCat("name '", Shown(name), "' is not of the form ", collection, "/ID"));
  }
  LORSA_RETURN_IF_ERROR(ValidateId(absl::StrCat("id in ", collection), id));
  return std::string(id);
}

}  // namespace lorsa
