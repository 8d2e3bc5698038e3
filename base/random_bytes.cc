#include "base/random_bytes.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>

namespace lorsa {

std::string SystemRandomBytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t done = 0; done < count;) {
    const ssize_t n = ::getrandom(bytes.data() + done, count - done, 0);
    if (n < 0 && errno != EINTR) std::abort();  // Cannot happen on Linux 3.17 and later.
    if (n > 0) done += static_cast<size_t>(n);
  }
  return bytes;
}

}  // namespace lorsa
