// The reactor of client-streaming methods: messages from the client are handled one after the other
// on an executor, the next one being read only then, which is the back-pressure; one answer ends
// the call.
#ifndef LORSA_SERVER_RPC_CLIENT_STREAM_H_
#define LORSA_SERVER_RPC_CLIENT_STREAM_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/exception_wall.h"
#include "base/status_macros.h"
#include "server/rpc/call.h"

namespace lorsa::server {

// What is done with the messages of one call. All methods run on an executor, one at a time; it is
// destroyed there too, before the call ends. The first message and the end may take minutes.
template <typename Request, typename Response>
class StreamSink {
 public:
  virtual ~StreamSink() = default;
  // An error ends the call with it; the rest is not read.
  virtual absl::Status OnMessage(const Request& message) = 0;
  // The client sends no more: the answer. It may have left rather than sent all, so what it sent is
  // to be held against what it announced.
  virtual absl::StatusOr<Response> Finish() = 0;
};

template <typename Request, typename Response>
using OpenedSink = absl::StatusOr<std::unique_ptr<StreamSink<Request, Response>>>;
template <typename Request, typename Response>
using SinkOpener = std::function<OpenedSink<Request, Response>(const Caller& caller)>;

// One call: a chain, open → read → handle → read → … → finish, of which one link exists at any
// time. Owned by itself until OnDone and by the task under way.
template <typename Request, typename Response>
class ClientStream final : public grpc::ServerReadReactor<Request>,
                           public std::enable_shared_from_this<ClientStream<Request, Response>> {
 public:
  ClientStream(const Method& method, grpc::CallbackServerContext* context, Response* response,
               Executor& long_work, SinkOpener<Request, Response> open)
      : call_(method, *context),
        long_work_(long_work),
        response_(response),
        open_(std::move(open)) {}

  void Start() {
    self_ = this->shared_from_this();
    const absl::Status admitted = call_.Admit(/*request_bytes=*/0, StepOf(&ClientStream::Open));
    if (!admitted.ok()) Finish(admitted);
  }

  // After the last message, and when the client vanished.
  void OnReadDone(bool ok) override {
    stream_->ClientActed();
    if (!ok) return call_.Schedule(long_work_, StepOf(&ClientStream::End));
    call_.Schedule(std::exchange(begun_, true) ? call_.executor() : long_work_,
                   StepOf(&ClientStream::Handle));
  }

  void OnCancel() override {
    cancelled_ = true;
    if (call_.Withdraw()) Finish(CancelledByClient());
  }

  void OnDone() override { self_.reset(); }

 private:
  CallStep StepOf(void (ClientStream::*step)()) { return {this->shared_from_this(), step}; }

  void Open() {
    const absl::Status status = CatchExceptions([this] { return OpenSink(); });
    if (!status.ok()) return Finish(status);
    Read();
  }

  void Read() {
    stream_->AwaitClient();
    this->StartRead(&message_);
  }

  absl::Status OpenSink() {
    LORSA_ASSIGN_OR_RETURN(const Caller caller, call_.Authorize());
    LORSA_ASSIGN_OR_RETURN(stream_, call_.OpenStream(caller));
    LORSA_ASSIGN_OR_RETURN(sink_, open_(caller));
    return absl::OkStatus();
  }

  void Handle() {
    const absl::Status status = CatchExceptions([this] { return sink_->OnMessage(message_); });
    if (!status.ok()) return Finish(status);
    Read();
  }

  void End() {
    if (cancelled_) return Finish(CancelledByClient());
    absl::StatusOr<Response> response = CatchExceptions([this] { return sink_->Finish(); });
    if (response.ok()) *response_ = *std::move(response);
    Finish(response.status());
  }

  void Finish(const absl::Status& status) {
    sink_.reset();
    open_ = nullptr;
    stream_.reset();
    grpc::ServerReadReactor<Request>::Finish(call_.End(status));
  }

  Call call_;
  Executor& long_work_;
  Response* const response_;
  SinkOpener<Request, Response> open_;
  std::unique_ptr<StreamSink<Request, Response>> sink_;
  std::unique_ptr<OpenStreams::Stream> stream_;
  bool begun_ = false;  // the first message has come
  Request message_;
  std::atomic<bool> cancelled_ = false;
  std::shared_ptr<ClientStream> self_;
};

// Serves one call: `open(caller)` is called on the executor of the method once the caller is
// authorised, and returns what handles the messages. The first message and the end are handled on
// `long_work`. `method` and `long_work` outlive the gRPC server.
template <typename Request, typename Response>
grpc::ServerReadReactor<Request>* ServeClientStream(const Method& method,
                                                    grpc::CallbackServerContext* context,
                                                    Response* response, Executor& long_work,
                                                    SinkOpener<Request, Response> open) {
  auto stream = std::make_shared<ClientStream<Request, Response>>(method, context, response,
                                                                  long_work, std::move(open));
  stream->Start();
  return stream.get();
}

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_CLIENT_STREAM_H_
