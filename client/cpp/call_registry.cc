#include "lorsa/client/call_registry.h"

namespace lorsa::client {

void CallRegistry::Cancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  for (grpc::ClientContext* context : contexts_) context->TryCancel();
}

bool CallRegistry::cancelled() const {
  absl::MutexLock lock(&mutex_);
  return cancelled_;
}

bool CallRegistry::SleepFor(absl::Duration duration) {
  absl::MutexLock lock(&mutex_);
  return !mutex_.AwaitWithTimeout(absl::Condition(&cancelled_), duration);
}

void CallRegistry::Add(grpc::ClientContext* context) {
  absl::MutexLock lock(&mutex_);
  contexts_.insert(context);
  if (cancelled_) context->TryCancel();
}

void CallRegistry::Remove(grpc::ClientContext* context) {
  absl::MutexLock lock(&mutex_);
  contexts_.erase(context);
}

}  // namespace lorsa::client
