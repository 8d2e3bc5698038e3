// The rules that all List methods share.
#ifndef LORSA_SERVER_SERVICES_PAGING_H_
#define LORSA_SERVER_SERVICES_PAGING_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace lorsa::server {

inline constexpr int kDefaultPageSize = 50;
inline constexpr int kMaxPageSize = 1000;

// `page_size` of a request: 0 stands for the default. INVALID_ARGUMENT outside 0 to 1,000.
absl::StatusOr<int> PageSize(int32_t page_size);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_PAGING_H_
