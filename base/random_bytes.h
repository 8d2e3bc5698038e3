#ifndef LORSA_BASE_RANDOM_BYTES_H_
#define LORSA_BASE_RANDOM_BYTES_H_

#include <cstddef>
#include <string>

namespace lorsa {

// That many bytes from getrandom(2): unpredictable.
std::string SystemRandomBytes(size_t count);

}  // namespace lorsa

#endif  // LORSA_BASE_RANDOM_BYTES_H_
