#include "base/utf8.h"

#include <algorithm>
#include <cstdint>

namespace lorsa {
namespace {

// Bytes of the valid character at the start of `text`, or 0 if there is none: no overlong forms, no
// surrogates, nothing above U+10FFFF.
size_t CharacterLength(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  uint8_t lowest = 0x80, highest = 0xBF;  // of the second byte
  if (lead == 0xE0) lowest = 0xA0;
  if (lead == 0xED) highest = 0x9F;
  if (lead == 0xF0) lowest = 0x90;
  if (lead == 0xF4) highest = 0x8F;
  if (byte(1) < lowest || byte(1) > highest) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::string Utf8Prefix(absl::string_view text, size_t max_bytes) {
  std::string valid;
  valid.reserve(std::min(text.size(), max_bytes));
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const size_t bytes = std::max<size_t>(length, 1);
    if (valid.size() + bytes > max_bytes) break;
    if (length == 0) {
      valid += '?';
    } else {
      valid.append(text.data(), length);
    }
    text.remove_prefix(bytes);
  }
  return valid;
}

}  // namespace lorsa
