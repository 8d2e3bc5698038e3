// The rules that all List methods share. A page token says after what the next page begins, by
// something that is never given to another row: it still holds once the row that it came from is
// deleted.
#ifndef LORSA_SERVER_SERVICES_PAGING_H_
#define LORSA_SERVER_SERVICES_PAGING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lorsa::server {

inline constexpr int kDefaultPageSize = 50;
inline constexpr int kMaxPageSize = 1000;
inline constexpr size_t kMaxPageBytes = 2 << 20;  // clients take 4 MiB a message by default

// `page_size` of a request: 0 stands for the default. INVALID_ARGUMENT outside 0 to 1,000.
absl::StatusOr<int> PageSize(int32_t page_size);

// The token of the page after the row with this number (StoredJob, StoredSweep).
std::string TokenAfter(int64_t number);
// The number in such a token; 0 in an empty one. INVALID_ARGUMENT for anything else.
absl::StatusOr<int64_t> NumberFromToken(const std::string& token);

// How many of `items`, in order, one page takes: at most `page_size`, and fewer if they would be
// more than kMaxPageBytes together; at least one if there is any. `size` gives an item's bytes.
template <typename Item, typename Size>
size_t ItemsInPage(const std::vector<Item>& items, int page_size, Size size) {
  const size_t limit = std::min(items.size(), static_cast<size_t>(page_size));
  size_t bytes = 0;
  for (size_t i = 0; i < limit; ++i) {
    bytes += size(items[i]);
    if (i > 0 && bytes > kMaxPageBytes) return i;
  }
  return limit;
}

// The same for messages.
template <typename Message>
size_t ItemsInPage(const std::vector<Message>& items, int page_size) {
  return ItemsInPage(items, page_size,
                     [](const Message& message) { return message.ByteSizeLong(); });
}

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_PAGING_H_
