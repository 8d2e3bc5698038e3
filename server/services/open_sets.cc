#include "server/services/open_sets.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/rpc/errors.h"

namespace lorsa::server {

absl::StatusOr<std::shared_ptr<const store::ActivationSet>> OpenSets::Get(
    const v1::ActivationSet& registered) {
  if (auto set = FindAndTouch(registered.manifest_sha256(), registered.path())) return set;
  // Not under the lock: opening reads every shard's header. Two callers may open the same set; the
  // second copy dies with its stream.
  LORSA_RETURN_IF_ERROR(inspector_.InspectSet(registered.path()).status);
  LORSA_ASSIGN_OR_RETURN(auto set, store::ActivationSet::Open(fs_, registered.path()));
  if (set->manifest_sha256() != registered.manifest_sha256()) {
    return WithReason(
        absl::FailedPreconditionError(
            absl::StrCat(registered.path(), "/manifest.json is not the one that was registered as ",
                         registered.name(), ": restore the set, or register it under another id")),
        "SET_CHANGED");
  }
  Insert(set);
  return set;
}

OpenSets::SetPointer OpenSets::FindAndTouch(const std::string& manifest_sha256,
                                            const std::string& folder) {
  absl::MutexLock lock(&mutex_);
  const auto found = std::find_if(sets_.begin(), sets_.end(), [&](const SetPointer& set) {
    return set->manifest_sha256() == manifest_sha256 && set->folder() == folder;
  });
  if (found == sets_.end()) return nullptr;
  sets_.splice(sets_.begin(), sets_, found);
  return sets_.front();
}

void OpenSets::Insert(SetPointer set) {
  SetPointer evicted;  // closed after the lock is released
  absl::MutexLock lock(&mutex_);
  sets_.push_front(std::move(set));
  if (sets_.size() > capacity_) {
    evicted = std::move(sets_.back());
    sets_.pop_back();
  }
}

}  // namespace lorsa::server
