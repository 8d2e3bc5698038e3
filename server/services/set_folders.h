// The folders in which sets lie. What the server does to files is decided by their folder, not by
// the id of a set: several sets may be registered on one folder, and several paths may lead to it.
#ifndef LORSA_SERVER_SERVICES_SET_FOLDERS_H_
#define LORSA_SERVER_SERVICES_SET_FOLDERS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "lorsa/v1/activation_service.pb.h"
#include "server/catalog/catalog.h"

namespace lorsa::server {

// Whether both paths lead to the same folder, also through a link or a mount.
bool IsSameFolder(const std::string& a, const std::string& b);

// The registered sets whose files lie in `folder`.
absl::StatusOr<std::vector<v1::ActivationSet>> SetsIn(const Catalog& catalog,
                                                      const std::string& folder);

// Who changes a folder just now: any number of uploads, or one registration or deletion.
// Thread-safe; links in the path of a folder are followed.
class FolderClaims {
 public:
  // Held as long as it lives; this outlives it.
  using Claim = std::shared_ptr<void>;

  // UNAVAILABLE (SET_BUSY) while somebody has the folder alone.
  absl::StatusOr<Claim> Share(const std::string& folder);
  // UNAVAILABLE (SET_BUSY) while somebody has a claim on the folder.
  absl::StatusOr<Claim> TakeAlone(const std::string& folder);

 private:
  absl::StatusOr<Claim> Take(const std::string& folder, bool alone);
  void Release(const std::string& key);

  struct Holders {
    int count = 0;
    bool alone = false;
  };
  absl::Mutex mutex_;
  std::map<std::string, Holders> claimed_ ABSL_GUARDED_BY(mutex_);  // by real path
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_SET_FOLDERS_H_
