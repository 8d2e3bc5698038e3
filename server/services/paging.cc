#include "server/services/paging.h"

#include "absl/strings/str_cat.h"
#include "server/rpc/errors.h"

namespace lorsa::server {

absl::StatusOr<int> PageSize(int32_t page_size) {
  if (page_size < 0 || page_size > kMaxPageSize) {
    return InvalidField(
        "page_size", absl::StrCat("must be 1 to ", kMaxPageSize, ", or 0 for ", kDefaultPageSize));
  }
  return page_size == 0 ? kDefaultPageSize : page_size;
}

}  // namespace lorsa::server
