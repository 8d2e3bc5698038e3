// The bound on open files of this process.
#ifndef LORSA_SERVER_DESCRIPTOR_LIMIT_H_
#define LORSA_SERVER_DESCRIPTOR_LIMIT_H_

#include "absl/status/status.h"

namespace lorsa::server {

// Raises the soft limit on descriptors to the hard one: every connection, log and shard takes one,
// and the usual soft limit of 1,024 is kept low only for select(2), which is not used here. On
// failure the limit is what it was. Processes started later inherit it.
absl::Status RaiseDescriptorLimit();

}  // namespace lorsa::server

#endif  // LORSA_SERVER_DESCRIPTOR_LIMIT_H_
