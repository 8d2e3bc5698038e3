// The reactor of server-streaming methods: it pulls messages from a source, one at a time, as fast
// as the client takes them.
#ifndef LORSA_SERVER_RPC_SERVER_STREAM_H_
#define LORSA_SERVER_RPC_SERVER_STREAM_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/exception_wall.h"
#include "base/status_macros.h"
#include "server/rpc/call.h"

namespace lorsa::server {

// Tells a stream that its source may have something new. Any thread, at any time, also after the
// stream has ended; cheap. A wake-up is never lost: one that comes while Next runs makes the stream
// ask again.
using Waker = std::function<void()>;

enum class Pulled {
  kMessage,  // the message was filled
  kNothing,  // nothing now; the source will call its waker
  kEnd,      // no more; the stream ends with OK
};

// Where the messages of one call come from. Next runs on an executor, one call at a time; the next
// one only after the message before was handed to the transport, which is the back-pressure. The
// source is destroyed on an executor, before the call ends, which stops the work done for it.
template <typename Response>
class StreamSource {
 public:
  virtual ~StreamSource() = default;
  // Never waits for something to happen: returns kNothing and calls the waker when it has.
  // `message` holds what the previous call left in it. An error ends the stream with it.
  virtual absl::StatusOr<Pulled> Next(Response& message) = 0;
};

template <typename Response>
using OpenedSource = absl::StatusOr<std::unique_ptr<StreamSource<Response>>>;
template <typename Response>
using SourceOpener = std::function<OpenedSource<Response>(const Caller& caller, Waker waker)>;

// One call. At any moment it is pulling (a task is queued or running), writing, idle (the source
// had nothing), or done; only the pulling task calls StartWrite and Finish, so those need no lock.
// Owned by itself until OnDone and by each task and wake-up under way.
template <typename Response>
class ServerStream final : public grpc::ServerWriteReactor<Response>,
                           public std::enable_shared_from_this<ServerStream<Response>> {
 public:
  ServerStream(const Method& method, grpc::CallbackServerContext* context, Executor& pulling,
               SourceOpener<Response> open)
      : call_(method, *context), pulling_(pulling), open_(std::move(open)) {}

  void Start(size_t request_bytes) {
    self_ = this->shared_from_this();
    const absl::Status admitted = call_.Admit(request_bytes, PullStep());
    if (!admitted.ok()) End(admitted);
  }

  void OnWriteDone(bool ok) override {
    stream_->ClientActed();
    {
      absl::MutexLock lock(&mutex_);
      if (!ok) cancelled_ = true;
      state_ = State::kPulling;
    }
    SchedulePull();
  }

  void OnCancel() override {
    if (call_.Withdraw()) return End(CancelledByClient());
    {
      absl::MutexLock lock(&mutex_);
      cancelled_ = true;
      if (state_ != State::kIdle) return;
      state_ = State::kPulling;
    }
    SchedulePull();
  }

  void OnDone() override { self_.reset(); }

 private:
  enum class State { kPulling, kWriting, kIdle, kDone };

  CallStep PullStep() { return {this->shared_from_this(), &ServerStream::Pull}; }
  void SchedulePull() { call_.Schedule(pulling_, PullStep()); }

  void Wake() {
    {
      absl::MutexLock lock(&mutex_);
      woken_ = true;
      if (state_ != State::kIdle) return;
      state_ = State::kPulling;
    }
    SchedulePull();
  }

  // One step, on the executor.
  void Pull() {
    {
      absl::MutexLock lock(&mutex_);
      woken_ = false;
    }
    const absl::StatusOr<Pulled> pulled = CatchExceptions([this] { return OpenAndPull(); });
    if (!pulled.ok()) return End(pulled.status());
    switch (*pulled) {
      case Pulled::kEnd:
        return End(absl::OkStatus());
      case Pulled::kMessage:
        SetState(State::kWriting);
        stream_->AwaitClient();
        return this->StartWrite(&message_);
      case Pulled::kNothing:
        if (!TurnIdle()) SchedulePull();
    }
  }

  absl::StatusOr<Pulled> OpenAndPull() {
    LORSA_RETURN_IF_ERROR(OpenIfNeeded());
    if (IsCancelled()) return CancelledByClient();
    return source_->Next(message_);
  }

  // The source is made on an executor too, since opening reads requests, catalog and files.
  absl::Status OpenIfNeeded() {
    if (open_ == nullptr) return absl::OkStatus();
    LORSA_ASSIGN_OR_RETURN(const Caller caller, call_.Authorize());
    LORSA_ASSIGN_OR_RETURN(stream_, call_.OpenStream(caller));
    LORSA_ASSIGN_OR_RETURN(source_, open_(caller, MakeWaker()));
    open_ = nullptr;
    return absl::OkStatus();
  }

  Waker MakeWaker() {
    return [weak = this->weak_from_this()] {
      if (auto stream = weak.lock()) stream->Wake();
    };
  }

  void End(const absl::Status& status) {
    SetState(State::kDone);
    source_.reset();
    open_ = nullptr;
    stream_.reset();
    this->Finish(call_.End(status));
  }

  bool IsCancelled() {
    absl::MutexLock lock(&mutex_);
    return cancelled_;
  }

  void SetState(State state) {
    absl::MutexLock lock(&mutex_);
    state_ = state;
  }

  // False if a wake-up or a cancellation came meanwhile: then the stream stays pulling.
  bool TurnIdle() {
    absl::MutexLock lock(&mutex_);
    if (woken_ || cancelled_) return false;
    state_ = State::kIdle;
    return true;
  }

  Call call_;
  Executor& pulling_;  // of the steps after the first one, which opens the source
  // Of the pulling task; no lock.
  SourceOpener<Response> open_;  // null once called
  std::unique_ptr<StreamSource<Response>> source_;
  std::unique_ptr<OpenStreams::Stream> stream_;
  std::shared_ptr<ServerStream> self_;
  Response message_;

  absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kPulling;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
};

// Serves one call: `open(caller, request, waker)` is called on the executor of the method once the
// caller is authorised; it checks the request and returns the source, or the error that ends the
// call. The source is then asked on `pulling`. `method` and `pulling` outlive the gRPC server.
template <typename Response, typename Request, typename Open>
grpc::ServerWriteReactor<Response>* ServeStream(const Method& method,
                                                grpc::CallbackServerContext* context,
                                                const Request* request, Executor& pulling,
                                                Open open) {
  auto stream = std::make_shared<ServerStream<Response>>(
      method, context, pulling,
      [request, open = std::move(open)](const Caller& caller, Waker waker) {
        return open(caller, *request, std::move(waker));
      });
  stream->Start(RequestBytes(*request));
  return stream.get();
}

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_SERVER_STREAM_H_
