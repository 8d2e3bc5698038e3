// One call on its way through the server: the steps that the reactors of all kinds of methods
// share.
#ifndef LORSA_SERVER_RPC_CALL_H_
#define LORSA_SERVER_RPC_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/monotonic_clock.h"
#include "google/protobuf/message_lite.h"
#include "server/rpc/authorization.h"
#include "server/rpc/call_records.h"
#include "server/rpc/executor.h"
#include "server/rpc/open_streams.h"

namespace lorsa::server {

// What all calls of a server share. All outlive the gRPC server. Copied freely.
struct CallEnvironment {
  WorkerTokenVerifier& tokens;
  OpenStreams& streams;  // of streaming methods
  OpenStreams& answers;  // of unary methods, until the client has taken them
  CallRecords& records;
};

// A method as its calls know it.
struct Method {
  std::string name;    // full: "lorsa.v1.JobService.GetJob"
  Access access;       // who may call it
  Executor& executor;  // where the first step of a call runs; outlives the gRPC server
  CallEnvironment calls;
  MethodRecords records;
};

// A member function of a reactor, to be called once. Owns a share of the reactor: the call may end
// on another thread while the step still runs.
class CallStep {
 public:
  template <typename Reactor>
  CallStep(std::shared_ptr<Reactor> reactor, void (Reactor::*step)())
      : run_([reactor = std::move(reactor), step] { ((*reactor).*step)(); }) {}

  void operator()() const { run_(); }

 private:
  std::function<void()> run_;
};

// What the client calls the call by, in its metadata; a new id if it calls it nothing.
std::string RequestIdOf(const grpc::CallbackServerContext& context);

// Not thread-safe, except where a method says so.
class Call {
 public:
  // Both outlive the call.
  Call(const Method& method, grpc::CallbackServerContext& context)
      : method_(method),
        context_(context),
        peer_(context.peer()),
        request_id_(RequestIdOf(context)) {
    method_.records.started.Increment();
  }

  // Queues the first step, on a thread of gRPC. An error is that of Executor::Admit; advice when to
  // try again also goes where gRPC's own retries look for it.
  absl::Status Admit(size_t request_bytes, CallStep first_step);

  // On cancellation: whether the call left the queue, and the first step never runs.
  bool Withdraw() { return method_.executor.Withdraw(ticket_); }

  // Opens the first step, before anything of the request is read: CANCELLED or DEADLINE_EXCEEDED if
  // nobody waits for the call any more, else what its method's rule says.
  absl::StatusOr<Caller> Authorize() const;

  // Counts a stream that the method opens. Errors are those of OpenStreams.
  absl::StatusOr<std::unique_ptr<OpenStreams::Stream>> OpenStream(const Caller& caller) {
    return method_.calls.streams.Open(caller, context_);
  }

  // The same for an answer of a unary method, which its client may leave unread.
  absl::StatusOr<std::unique_ptr<OpenStreams::Stream>> OpenAnswer(const Caller& caller) {
    return method_.calls.answers.Open(caller, context_);
  }

  // Queues another step. Thread-safe.
  void Schedule(Executor& executor, CallStep step) const {
    executor.Schedule(std::move(step), peer_);
  }
  // Of the first step.
  Executor& executor() const { return method_.executor; }

  // What the call is to finish with, after it is put on record. Called once.
  grpc::Status End(const absl::Status& status);

  // Cancels the call. Thread-safe.
  void Cancel() { context_.TryCancel(); }

 private:
  const Method& method_;
  grpc::CallbackServerContext& context_;
  const std::string peer_;
  const std::string request_id_;
  const absl::Duration arrival_ = MonotonicNow();
  Executor::Ticket ticket_;  // set before gRPC calls OnCancel
};

inline size_t RequestBytes(const google::protobuf::MessageLite& request) {
  return request.ByteSizeLong();
}
inline size_t RequestBytes(const grpc::ByteBuffer& request) { return request.Length(); }

inline absl::Status CancelledByClient() {
  return absl::CancelledError("the client cancelled the call");
}

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_CALL_H_
