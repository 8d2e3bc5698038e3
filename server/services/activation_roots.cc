#include "server/services/activation_roots.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error_details.h"
#include "base/file_system.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace lorsa::server {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxPathBytes = 4096;  // PATH_MAX

absl::StatusOr<std::string> CanonicalFolder(const std::string& path) {
  std::error_code error;
  const fs::path canonical = fs::canonical(path, error);
  if (error) return ErrnoStatus(error.value(), "open folder", path);
  if (!fs::is_directory(canonical, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a folder"));
  }
  return canonical.string();
}

}  // namespace

absl::StatusOr<ActivationRoots> ActivationRoots::Create(const std::vector<std::string>& roots) {
  std::vector<std::string> canonical;
  for (const std::string& root : roots) {
    LORSA_ASSIGN_OR_RETURN(canonical.emplace_back(), CanonicalFolder(root));
  }
  return ActivationRoots(std::move(canonical));
}

bool ActivationRoots::Contains(const std::string& path) const {
  return std::any_of(roots_.begin(), roots_.end(), [&](const std::string& root) {
    return absl::StartsWith(path, root == "/" ? root : root + "/");
  });
}

absl::StatusOr<std::string> ActivationRoots::Resolve(absl::string_view path) const {
  if (path.empty() || path.front() != '/' || path.size() > kMaxPathBytes ||
      absl::StrContains(path, absl::string_view("\0", 1))) {
    return InvalidField("path", "must be the absolute path of a folder on the server");
  }
  const std::string wanted(path);
  const absl::StatusOr<std::string> canonical = CanonicalFolder(wanted);
  // What cannot be resolved is judged by its text, so that the answer does not tell what exists
  // elsewhere on the server.
  if (!Contains(canonical.ok() ? *canonical : fs::path(wanted).lexically_normal().string())) {
    return WithReason(absl::PermissionDeniedError(absl::StrCat(
                          Utf8Prefix(path, 256), " lies outside of the server's activation roots (",
                          absl::StrJoin(roots_, ", "),
                          "): move the set, or start lorsad with another --activation-root")),
                      "OUTSIDE_ACTIVATION_ROOTS");
  }
  if (!canonical.ok()) return ForField(canonical.status(), "path");
  // It is stored and sent as a proto3 string.
  if (Utf8Prefix(*canonical, kMaxPathBytes) != *canonical) {
    return InvalidField("path", "leads to a folder whose name is not UTF-8; rename it");
  }
  return canonical;
}

}  // namespace lorsa::server
