#include "base/crc32c.h"

#include <isa-l.h>

namespace lorsa {

uint32_t Crc32c(absl::string_view data) {
  // ISA-L's function is the bare polynomial division; RFC 3720 inverts before and after. It takes
  // an int length and does not write to the buffer in spite of its signature.
  uint32_t crc = 0xFFFFFFFFu;
  while (!data.empty()) {
    const size_t n = data.size() < (1u << 30) ? data.size() : (1u << 30);
    crc = crc32_iscsi(reinterpret_cast<unsigned char*>(const_cast<char*>(data.data())),
                      static_cast<int>(n), crc);
    data.remove_prefix(n);
  }
  return ~crc;
}

}  // namespace lorsa
