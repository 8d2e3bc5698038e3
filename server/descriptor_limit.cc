#include "server/descriptor_limit.h"

#include <sys/resource.h>

#include <cerrno>

namespace lorsa::server {

absl::Status RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::ErrnoToStatus(errno, "getrlimit");
  if (limit.rlim_cur == limit.rlim_max) return absl::OkStatus();
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::ErrnoToStatus(errno, "setrlimit");
  return absl::OkStatus();
}

}  // namespace lorsa::server
