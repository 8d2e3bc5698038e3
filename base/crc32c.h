// CRC-32C (Castagnoli, RFC 3720 appendix B.4), the checksum of each chunk on the wire.
#ifndef LORSA_BASE_CRC32C_H_
#define LORSA_BASE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace lorsa {

uint32_t Crc32c(absl::string_view data);

}  // namespace lorsa

#endif  // LORSA_BASE_CRC32C_H_
