// Text on its way into proto3 string fields, which must be UTF-8.
#ifndef LORSA_BASE_UTF8_H_
#define LORSA_BASE_UTF8_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace lorsa {

// At most `max_bytes` from the start of `text`, cut between characters; each byte that is not part
// of valid UTF-8 (RFC 3629) becomes '?'.
std::string Utf8Prefix(absl::string_view text, size_t max_bytes);

}  // namespace lorsa

#endif  // LORSA_BASE_UTF8_H_
