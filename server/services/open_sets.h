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
#include "base/file_system.h"
#include "lorsa/v1/activation_service.pb.h"
#include "server/inspection/inspector.h"

namespace lorsa::server {

// Keeps the `capacity` sets that were used last open, by the sha256 of their manifests; one that a
// stream still reads lives on until that stream ends. Thread-safe; blocks on files.
class OpenSets {
 public:
  // `fs` and `inspector` outlive this.
  OpenSets(FileSystem& fs, const Inspector& inspector, size_t capacity)
      : fs_(fs), inspector_(inspector), capacity_(capacity) {}

  // The set that was registered as `registered`. Errors are those of Inspector and of
  // store::ActivationSet::Open;
  // FAILED_PRECONDITION (reason SET_CHANGED) if its manifest is another one by now.
  absl::StatusOr<std::shared_ptr<const store::ActivationSet>> Get(
      const v1::ActivationSet& registered);

 private:
  using SetPointer = std::shared_ptr<const store::ActivationSet>;

  // Null if it is not open.
  SetPointer FindAndTouch(const std::string& manifest_sha256, const std::string& folder);
  void Insert(SetPointer set);

  FileSystem& fs_;
  const Inspector& inspector_;
  const size_t capacity_;
  absl::Mutex mutex_;
  std::list<SetPointer> sets_ ABSL_GUARDED_BY(mutex_);  // the last used first
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_OPEN_SETS_H_
