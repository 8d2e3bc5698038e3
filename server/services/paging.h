// The rules that all List methods share.
#ifndef LORSA_SERVER_SERVICES_PAGING_H_
#define LORSA_SERVER_SERVICES_PAGING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace lorsa::server {

inline constexpr int kDefaultPageSize = 50;
inline constexpr int kMaxPageSize = 1000;
inline constexpr size_t kMaxPageBytes = 2 << 20;  // clients take 4 MiB a message by default

// `page_size` of a request: 0 stands for the default. INVALID_ARGUMENT outside 0 to 1,000.
absl::StatusOr<int> PageSize(int32_t page_size);

// How many of `items`, in order, one page takes: at most `page_size`, and fewer if they would be
// more than kMaxPageBytes together; at least one if there is any.
template <typename Message>
size_t ItemsInPage(const std::vector<Message>& items, int page_size) {
  const size_t limit = std::min(items.size(), static_cast<size_t>(page_size));
  size_t bytes = 0;
  for (size_t i = 0; i < limit; ++i) {
    bytes += items[i].ByteSizeLong();
    if (i > 0 && bytes > kMaxPageBytes) return i;
  }
  return limit;
}

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_PAGING_H_
