// The bound on open files of this process.
#ifndef LORSA_SERVER_DESCRIPTOR_LIMIT_H_
#define LORSA_SERVER_DESCRIPTOR_LIMIT_H_

#include <cstdint>

#include "absl/status/status.h"

namespace lorsa::server {

// Sets the soft limit on descriptors to `descriptors`, or to the hard limit for 0: every
// connection, log and shard takes one, and the usual soft limit of 1,024 is kept low only for
// select(2), which is not used here. INVALID_ARGUMENT above the hard limit; on failure the limit is
// what it was. Processes started later inherit it.
absl::Status SetDescriptorLimit(int64_t descriptors);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_DESCRIPTOR_LIMIT_H_
