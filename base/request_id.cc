#include "base/request_id.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "base/random_bytes.h"

namespace lorsa {

std::string NewRequestId() { return absl::BytesToHexString(SystemRandomBytes(8)); }

bool IsRequestId(absl::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

}  // namespace lorsa
