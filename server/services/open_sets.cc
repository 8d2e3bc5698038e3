#include "server/services/open_sets.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/status_macros.h"

namespace lorsa::server {
namespace {

// The set alone, which keeps alive what it reads through.
std::shared_ptr<const store::ActivationSet> SetOf(std::shared_ptr<const InspectedSet> opened) {
  const store::ActivationSet* const set = opened->set.get();
  return {std::move(opened), set};
}

}  // namespace

absl::StatusOr<InspectedSet> OpenInspected(const Inspector& inspector, const std::string& folder) {
  InspectedSet opened;
  Inspection inspection = inspector.InspectSet(folder);
  LORSA_RETURN_IF_ERROR(inspection.status);
  opened.files = std::move(inspection.files);
  LORSA_ASSIGN_OR_RETURN(opened.set, store::ActivationSet::Open(*opened.files, folder));
  return opened;
}

absl::StatusOr<std::shared_ptr<const store::ActivationSet>> OpenSets::Get(
    const v1::ActivationSet& registered) {
  if (auto open = FindAndTouch(registered.manifest_sha256(), registered.path())) {
    if (open->files->IsUnchanged()) return SetOf(std::move(open));
    Drop(open);
  }
  // Not under the lock: opening reads every shard's header. Two callers may open the same set; the
  // second copy dies with its stream.
  LORSA_ASSIGN_OR_RETURN(InspectedSet opened, OpenInspected(inspector_, registered.path()));
  if (opened.set->manifest_sha256() != registered.manifest_sha256()) {
    return WithReason(
        absl::FailedPreconditionError(
            absl::StrCat(registered.path(), "/manifest.json is not the one that was registered as ",
                         registered.name(), ": restore the set, or register it under another id")),
        "SET_CHANGED");
  }
  auto set = std::make_shared<const InspectedSet>(std::move(opened));
  Insert(set);
  return SetOf(std::move(set));
}

OpenSets::SetPointer OpenSets::FindAndTouch(const std::string& manifest_sha256,
                                            const std::string& folder) {
  absl::MutexLock lock(&mutex_);
  const auto found = std::find_if(sets_.begin(), sets_.end(), [&](const SetPointer& open) {
    return open->set->manifest_sha256() == manifest_sha256 && open->set->folder() == folder;
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

void OpenSets::Drop(const SetPointer& set) {
  absl::MutexLock lock(&mutex_);
  sets_.remove(set);
}

}  // namespace lorsa::server
