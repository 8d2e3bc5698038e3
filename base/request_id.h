// What names one call in the logs of both its ends. The client makes it and sends it as metadata;
// a call that is sent again keeps it.
#ifndef LORSA_BASE_REQUEST_ID_H_
#define LORSA_BASE_REQUEST_ID_H_

#include <string>

#include "absl/strings/string_view.h"

namespace lorsa {

inline constexpr char kRequestIdHeader[] = "x-request-id";

// 16 hexadecimal digits that nobody had before.
std::string NewRequestId();

// 1 to 64 characters of A–Z, a–z, 0–9, '-', '_' and '.'.
bool IsRequestId(absl::string_view text);

}  // namespace lorsa

#endif  // LORSA_BASE_REQUEST_ID_H_
