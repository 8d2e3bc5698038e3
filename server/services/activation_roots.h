// Where activation sets may lie.
#ifndef LORSA_SERVER_SERVICES_ACTIVATION_ROOTS_H_
#define LORSA_SERVER_SERVICES_ACTIVATION_ROOTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lorsa::server {

// The folders below which sets may be registered. Immutable; thread-safe.
class ActivationRoots {
 public:
  // The roots with links resolved. NOT_FOUND or INVALID_ARGUMENT for one that is not a folder.
  static absl::StatusOr<ActivationRoots> Create(const std::vector<std::string>& roots);

  // The folder `path` with "..", "." and links resolved, if that lies below a root.
  // INVALID_ARGUMENT for a path that is relative or no folder, PERMISSION_DENIED outside the roots
  // (whether or not something is there), NOT_FOUND below one if nothing is there.
  absl::StatusOr<std::string> Resolve(absl::string_view path) const;

  const std::vector<std::string>& roots() const { return roots_; }

 private:
  explicit ActivationRoots(std::vector<std::string> roots) : roots_(std::move(roots)) {}
  bool Contains(const std::string& path) const;

  std::vector<std::string> roots_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_ACTIVATION_ROOTS_H_
