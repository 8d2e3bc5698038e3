// A second name for a file.
#ifndef LORSA_BASE_HARD_LINK_H_
#define LORSA_BASE_HARD_LINK_H_

#include <string>

#include "absl/status/status.h"

namespace lorsa {

// link(2): `to` becomes another name of the file `from`. Errors as of FileSystem; ALREADY_EXISTS if
// `to` is taken.
absl::Status HardLink(const std::string& from, const std::string& to);

}  // namespace lorsa

#endif  // LORSA_BASE_HARD_LINK_H_
