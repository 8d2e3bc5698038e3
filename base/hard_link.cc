#include "base/hard_link.h"

#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/file_system.h"

namespace lorsa {

absl::Status HardLink(const std::string& from, const std::string& to) {
  if (::link(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "link", absl::StrCat(from, " to ", to));
}

}  // namespace lorsa
