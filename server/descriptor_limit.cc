#include "server/descriptor_limit.h"

#include <sys/resource.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace lorsa::server {

absl::Status SetDescriptorLimit(int64_t descriptors) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::ErrnoToStatus(errno, "getrlimit");
  const rlim_t wanted = descriptors == 0 ? limit.rlim_max : static_cast<rlim_t>(descriptors);
  if (wanted > limit.rlim_max) {
    return absl::InvalidArgumentError(
        absl::StrCat("limits.descriptors is ", wanted, ", the system allows ", limit.rlim_max));
  }
  limit.rlim_cur = wanted;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::ErrnoToStatus(errno, "setrlimit");
  return absl::OkStatus();
}

}  // namespace lorsa::server
