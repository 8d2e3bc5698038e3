#include "lorsa/client/call_registry.h"

#include "base/request_id.h"

namespace lorsa::client {

void CallRegistry::Cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  woken_.notify_all();
  for (grpc::ClientContext* context : contexts_) context->TryCancel();
}

bool CallRegistry::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

bool CallRegistry::SleepFor(absl::Duration duration) {
  std::unique_lock lock(mutex_);
  return !woken_.wait_for(lock, absl::ToChronoNanoseconds(duration), [this] { return cancelled_; });
}

void CallRegistry::Add(grpc::ClientContext* context) {
  const std::lock_guard lock(mutex_);
  contexts_.insert(context);
  if (cancelled_) context->TryCancel();
}

void CallRegistry::Remove(grpc::ClientContext* context) {
  const std::lock_guard lock(mutex_);
  contexts_.erase(context);
}

RegisteredCall::RegisteredCall(CallRegistry& registry) : registry_(registry) {
  context_.AddMetadata(kRequestIdHeader, NewRequestId());
  registry_.Add(&context_);
}

}  // namespace lorsa::client
