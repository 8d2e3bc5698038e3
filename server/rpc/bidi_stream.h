// The reactor of bidirectional streams: messages from the client are handled one after the other
// on the executor; messages to it may be sent from any thread and leave in order, one write in
// flight, from a queue with a bound.
#ifndef LORSA_SERVER_RPC_BIDI_STREAM_H_
#define LORSA_SERVER_RPC_BIDI_STREAM_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/exception_wall.h"
#include "base/status_macros.h"
#include "server/rpc/call.h"

namespace lorsa::server {

// The server's end of one stream. Thread-safe. May be kept after the stream has ended; then both
// methods do nothing.
template <typename Response>
class BidiSender {
 public:
  virtual ~BidiSender() = default;
  // Queues a message. False if the stream has ended, or is cancelled now because the client left
  // kMaxQueuedMessages unread.
  virtual bool Send(Response message) = 0;
  // Ends the stream with `status` once everything queued has been written. The first call counts.
  virtual void End(absl::Status status) = 0;

  static constexpr size_t kMaxQueuedMessages = 256;
};

// What is done with the client's messages. Methods run one at a time, on the stream's executor
// unless they say otherwise.
template <typename Request>
class BidiHandler {
 public:
  virtual ~BidiHandler() = default;
  // `message` has come and OnMessage follows, on the executor returned here; null for the stream's.
  // On a thread of gRPC: must not block.
  virtual Executor* OnArrival(const Request& /*message*/) { return nullptr; }
  // The next message is read only after this returns. An error ends the stream with it.
  virtual absl::Status OnMessage(const Request& message) = 0;
  // Last call, exactly once: the client has finished or vanished, or the stream was ended here.
  virtual void OnClose() {}
};

template <typename Request>
using OpenedHandler = absl::StatusOr<std::unique_ptr<BidiHandler<Request>>>;
template <typename Request, typename Response>
using HandlerOpener = std::function<OpenedHandler<Request>(
    const Caller& caller, std::shared_ptr<BidiSender<Response>> sender)>;

// One call. The incoming side is a chain, open → read → handle → read → … → close, of which one
// link exists at any time. The outgoing side writes while the queue has messages. The call finishes
// when an end was asked for and the queue is written. Every operation on the stream starts under
// the lock, so that none starts after Finish. Owned by itself until OnDone and by each task under
// way.
template <typename Request, typename Response>
class BidiStream final : public grpc::ServerBidiReactor<Request, Response>,
                         public std::enable_shared_from_this<BidiStream<Request, Response>> {
 public:
  BidiStream(const Method& method, grpc::CallbackServerContext* context,
             HandlerOpener<Request, Response> open)
      : call_(method, *context), open_(std::move(open)) {}

  void Start() {
    self_ = this->shared_from_this();
    const absl::Status admitted = call_.Admit(/*request_bytes=*/0, StepOf(&BidiStream::Open));
    if (!admitted.ok()) EndUnopened(admitted);
  }

  // As BidiSender, which keeps no reference to the stream.
  bool Send(Response message) {
    absl::MutexLock lock(&mutex_);
    if (end_.has_value()) return false;
    if (queue_.size() >= BidiSender<Response>::kMaxQueuedMessages) {
      call_.Cancel();  // The write under way would wait for the client for ever.
      return false;
    }
    queue_.push_back(std::move(message));
    WriteOrFinish();
    return true;
  }

  void End(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    RequestEnd(std::move(status));
  }

  void OnReadDone(bool ok) override {
    if (!ok) return call_.Schedule(call_.executor(), StepOf(&BidiStream::Close));
    Executor* const executor = handler_->OnArrival(incoming_);
    call_.Schedule(executor == nullptr ? call_.executor() : *executor, StepOf(&BidiStream::Handle));
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) {
      queue_.clear();
      RequestEnd(absl::CancelledError("the client left"));
    }
    WriteOrFinish();
  }

  void OnCancel() override {
    if (call_.Withdraw()) return EndUnopened(CancelledByClient());
    absl::MutexLock lock(&mutex_);
    queue_.clear();
    RequestEnd(CancelledByClient());
  }

  void OnDone() override { self_.reset(); }

 private:
  class WeakSender final : public BidiSender<Response> {
   public:
    explicit WeakSender(std::weak_ptr<BidiStream> stream) : stream_(std::move(stream)) {}
    bool Send(Response message) override {
      auto stream = stream_.lock();
      return stream != nullptr && stream->Send(std::move(message));
    }
    void End(absl::Status status) override {
      if (auto stream = stream_.lock()) stream->End(std::move(status));
    }

   private:
    const std::weak_ptr<BidiStream> stream_;
  };

  CallStep StepOf(void (BidiStream::*step)()) { return {this->shared_from_this(), step}; }

  void Open() {
    const absl::Status status = CatchExceptions([this] { return OpenHandler(); });
    if (!status.ok()) return EndUnopened(status);
    {
      absl::MutexLock lock(&mutex_);
      opening_ = false;
      WriteOrFinish();
    }
    ReadOrClose();
  }

  // There is no handler, and will be none.
  void EndUnopened(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    opening_ = false;
    RequestEnd(std::move(status));
  }

  absl::Status OpenHandler() {
    LORSA_ASSIGN_OR_RETURN(const Caller caller, call_.Authorize());
    auto handler = open_(caller, std::make_shared<WeakSender>(this->weak_from_this()));
    open_ = nullptr;
    LORSA_ASSIGN_OR_RETURN(handler_, std::move(handler));
    return absl::OkStatus();
  }

  void Handle() {
    const absl::Status status = CatchExceptions([this] { return handler_->OnMessage(incoming_); });
    if (!status.ok()) End(status);
    ReadOrClose();
  }

  void Close() {
    const absl::Status status = CatchExceptions([this] {
      handler_->OnClose();
      return absl::OkStatus();
    });
    handler_.reset();
    End(status);
  }

  void ReadOrClose() {
    {
      absl::MutexLock lock(&mutex_);
      if (!end_.has_value()) return this->StartRead(&incoming_);
    }
    Close();
  }

  void RequestEnd(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!end_.has_value()) end_ = std::move(status);
    WriteOrFinish();
  }

  void WriteOrFinish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (opening_ || writing_ || finished_) return;
    if (!queue_.empty()) {
      outgoing_ = std::move(queue_.front());
      queue_.pop_front();
      writing_ = true;
      this->StartWrite(&outgoing_);
    } else if (end_.has_value()) {
      finished_ = true;
      this->Finish(call_.End(*end_));
    }
  }

  Call call_;
  // The incoming chain's own; no lock.
  HandlerOpener<Request, Response> open_;
  std::unique_ptr<BidiHandler<Request>> handler_;
  Request incoming_;
  std::shared_ptr<BidiStream> self_;

  absl::Mutex mutex_;
  std::deque<Response> queue_ ABSL_GUARDED_BY(mutex_);
  Response outgoing_ ABSL_GUARDED_BY(mutex_);    // what is being written; gRPC reads it without
  bool opening_ ABSL_GUARDED_BY(mutex_) = true;  // Open still uses the context: do not finish
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

// Serves one call: `open(caller, sender)` is called on the executor of the method once the caller
// is authorised, and returns what handles the client's messages. `method` outlives the gRPC server.
template <typename Request, typename Response>
grpc::ServerBidiReactor<Request, Response>* ServeBidi(const Method& method,
                                                      grpc::CallbackServerContext* context,
                                                      HandlerOpener<Request, Response> open) {
  auto stream = std::make_shared<BidiStream<Request, Response>>(method, context, std::move(open));
  stream->Start();
  return stream.get();
}

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_BIDI_STREAM_H_
