// The calls of a client that are under way, so that one Cancel ends them all.
#ifndef LORSA_CLIENT_CALL_REGISTRY_H_
#define LORSA_CLIENT_CALL_REGISTRY_H_

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <mutex>

#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"

namespace lorsa::client {

// Thread-safe.
class CallRegistry {
 public:
  // Cancels the calls under way and all later ones, and wakes the sleepers. Not from a signal
  // handler: it takes a lock.
  void Cancel();
  bool cancelled() const;
  // False if Cancel came before `duration` had passed.
  bool SleepFor(absl::Duration duration);

 private:
  friend class RegisteredCall;
  void Add(grpc::ClientContext* context);
  void Remove(grpc::ClientContext* context);

  // Not Abseil's, whose waits follow the wall clock. It guards the rest.
  mutable std::mutex mutex_;
  std::condition_variable woken_;
  bool cancelled_ = false;
  absl::flat_hash_set<grpc::ClientContext*> contexts_;
};

// The context of one call, in the registry for as long as it lives. Its metadata carry a new
// request id, which names the call in the server's log.
class RegisteredCall {
 public:
  explicit RegisteredCall(CallRegistry& registry);
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
