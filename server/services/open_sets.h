// The registered sets that are open, shared by the streams that read them.
#ifndef LORSA_SERVER_SERVICES_OPEN_SETS_H_
#define LORSA_SERVER_SERVICES_OPEN_SETS_H_

#include <list>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "activation_store/activation_set.h"
#include "lorsa/v1/activation_service.pb.h"
#include "server/inspection/inspected_folder.h"
#include "server/inspection/inspector.h"

namespace lorsa::server {

// An open set and the folder through which it reads: UNAVAILABLE once one of its files has changed.
struct InspectedSet {
  std::shared_ptr<InspectedFolder> files;
  std::shared_ptr<const store::ActivationSet> set;
};

// Has a child parse the set in `folder`, then opens it. Errors are those of Inspector and of
// store::ActivationSet::Open.
absl::StatusOr<InspectedSet> OpenInspected(const Inspector& inspector, const std::string& folder);

// Keeps the `capacity` sets that were used last open, by the sha256 of their manifests; one that a
// stream still reads lives on until that stream ends. Thread-safe; blocks on files.
class OpenSets {
 public:
  // `inspector` outlives this.
  OpenSets(const Inspector& inspector, size_t capacity)
      : inspector_(inspector), capacity_(capacity) {}

  // The set that was registered as `registered`, opened anew if its files have changed. Errors are
  // those of OpenInspected; FAILED_PRECONDITION (reason SET_CHANGED) if its manifest is another one
  // by now.
  absl::StatusOr<std::shared_ptr<const store::ActivationSet>> Get(
      const v1::ActivationSet& registered);

 private:
  using SetPointer = std::shared_ptr<const InspectedSet>;

  // Null if it is not open.
  SetPointer FindAndTouch(const std::string& manifest_sha256, const std::string& folder);
  void Insert(SetPointer set);
  void Drop(const SetPointer& set);

  const Inspector& inspector_;
  const size_t capacity_;
  absl::Mutex mutex_;
  std::list<SetPointer> sets_ ABSL_GUARDED_BY(mutex_);  // the last used first
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_OPEN_SETS_H_
