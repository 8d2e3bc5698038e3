#include "server/services/paging.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"

namespace lorsa::server {

absl::StatusOr<int> PageSize(int32_t page_size) {
  if (page_size < 0 || page_size > kMaxPageSize) {
    return InvalidField(
        "page_size", absl::StrCat("must be 1 to ", kMaxPageSize, ", or 0 for ", kDefaultPageSize));
  }
  return page_size == 0 ? kDefaultPageSize : page_size;
}

std::string TokenAfter(int64_t number) { return absl::StrCat(number); }

absl::StatusOr<int64_t> NumberFromToken(const std::string& token) {
  if (token.empty()) return 0;
  int64_t number = 0;
  if (absl::SimpleAtoi(token, &number) && number > 0) return number;
  return InvalidField("page_token",
                      absl::StrCat("'", token, "' is not the next_page_token of a response; ",
                                   "leave it empty to list from the first page"));
}

}  // namespace lorsa::server
