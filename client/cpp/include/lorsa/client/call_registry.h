// The calls of a client that are under way, so that one Cancel ends them all.
#ifndef LORSA_CLIENT_CALL_REGISTRY_H_
#define LORSA_CLIENT_CALL_REGISTRY_H_

#include <grpcpp/grpcpp.h>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace lorsa::client {

// Thread-safe.
class CallRegistry {
 public:
  // Cancels the calls under way and all later ones, and wakes the sleepers. Not from a signal
  // handler: it takes a lock.
  void Cancel() ABSL_LOCKS_EXCLUDED(mutex_);
  bool cancelled() const ABSL_LOCKS_EXCLUDED(mutex_);
  // False if Cancel came before `duration` had passed.
  bool SleepFor(absl::Duration duration) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class RegisteredCall;
  void Add(grpc::ClientContext* context) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(grpc::ClientContext* context) ABSL_LOCKS_EXCLUDED(mutex_);

  mutable absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_set<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mutex_);
};

// The context of one call, in the registry for as long as it lives.
class RegisteredCall {
 public:
  explicit RegisteredCall(CallRegistry& registry) : registry_(registry) {
    registry_.Add(&context_);
  }
  ~RegisteredCall() { registry_.Remove(&context_); }
  RegisteredCall(const RegisteredCall&) = delete;
  RegisteredCall& operator=(const RegisteredCall&) = delete;
  grpc::ClientContext& context() { return context_; }

 private:
  CallRegistry& registry_;
  grpc::ClientContext context_;
};

}  // namespace lorsa::client

#endif  // LORSA_CLIENT_CALL_REGISTRY_H_
