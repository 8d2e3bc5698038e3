// A gRPC service as a list of methods. Each method is added in one line, which says all that the
// server knows of it: its name, who may call it, on whose threads it runs, and what answers it:
//
//   JobService::JobService(…) : RpcService("lorsa.v1.JobService", calls) {
//     Unary({"GetJob", Access::kAnyone, lanes.reads}, *this, &JobService::Get);
//   }
//
// A method of the protos that is not added cannot be called: gRPC answers UNIMPLEMENTED.
#ifndef LORSA_SERVER_RPC_RPC_SERVICE_H_
#define LORSA_SERVER_RPC_RPC_SERVICE_H_

#include <google/protobuf/descriptor.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <deque>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/rpc/bidi_stream.h"
#include "server/rpc/call.h"
#include "server/rpc/client_stream.h"
#include "server/rpc/server_stream.h"
#include "server/rpc/unary_call.h"

namespace lorsa::server {

// Outlives the gRPC server that it is registered with. What is added is added before that.
class RpcService : public grpc::Service {
 public:
  // In the order in which they were added.
  const std::deque<Method>& methods() const { return methods_; }

 protected:
  struct Rule {
    absl::string_view name;  // "GetJob"
    Access access;
    Executor& executor;  // of the first step of a call; outlives the gRPC server
  };

  // `name` is the full name of a service in the protos that are linked in.
  RpcService(absl::string_view name, const CallEnvironment& calls);

  // For all that follows: `object` outlives the service. The types of the messages are those of the
  // method in the protos, or grpc::ByteBuffer for raw messages.

  template <typename Object, typename Request, typename Response>
  void Unary(const Rule& rule, Object& object,
             absl::Status (Object::*handle)(const Caller&, const Request&, Response&)) {
    const Method& method = Add<Request, Response>(rule);
    Serve<Request>(new grpc::internal::CallbackUnaryHandler<Request, Response>(
        [&method, &object, handle](grpc::CallbackServerContext* context, const Request* request,
                                   Response* response) {
          return ServeUnary(
              method, context, request, response,
              [&object, handle](const Caller& caller, const Request& request, Response& response) {
                return (object.*handle)(caller, request, response);
              });
        }));
  }

  // `pulling` runs the steps after the first one; null for the executor of the first one.
  template <typename Object, typename Request, typename Response>
  void ServerStreaming(const Rule& rule, Object& object,
                       OpenedSource<Response> (Object::*open)(const Caller&, const Request&, Waker),
                       Executor* pulling = nullptr) {
    const Method& method = Add<Request, Response>(rule);
    Executor& then = pulling == nullptr ? rule.executor : *pulling;
    Serve<Request>(new grpc::internal::CallbackServerStreamingHandler<Request, Response>(
        [&method, &object, open, &then](grpc::CallbackServerContext* context,
                                        const Request* request) {
          return ServeStream<Response>(
              method, context, request, then,
              [&object, open](const Caller& caller, const Request& request, Waker waker) {
                return (object.*open)(caller, request, std::move(waker));
              });
        }));
  }

  // `long_work` handles the first message and the end.
  template <typename Object, typename Request, typename Response>
  void ClientStreaming(const Rule& rule, Object& object, Executor& long_work,
                       OpenedSink<Request, Response> (Object::*open)(const Caller&)) {
    const Method& method = Add<Request, Response>(rule);
    Serve<Request>(new grpc::internal::CallbackClientStreamingHandler<Request, Response>(
        [&method, &object, &long_work, open](grpc::CallbackServerContext* context,
                                             Response* response) {
          return ServeClientStream<Request, Response>(
              method, context, response, long_work,
              [&object, open](const Caller& caller) { return (object.*open)(caller); });
        }));
  }

  template <typename Object, typename Request, typename Response>
  void Bidirectional(const Rule& rule, Object& object,
                     OpenedHandler<Request> (Object::*open)(
                         const Caller&, std::shared_ptr<BidiSender<Response>>)) {
    const Method& method = Add<Request, Response>(rule);
    Serve<Request>(new grpc::internal::CallbackBidiHandler<Request, Response>(
        [&method, &object, open](grpc::CallbackServerContext* context) {
          return ServeBidi<Request, Response>(
              method, context,
              [&object, open](const Caller& caller, std::shared_ptr<BidiSender<Response>> sender) {
                return (object.*open)(caller, std::move(sender));
              });
        }));
  }

 private:
  template <typename Message>
  static constexpr bool kIsRaw = std::is_same_v<Message, grpc::ByteBuffer>;

  // Null for raw messages.
  template <typename Message>
  static const google::protobuf::Descriptor* DescriptorOf() {
    if constexpr (kIsRaw<Message>) {
      return nullptr;
    } else {
      return Message::descriptor();
    }
  }

  // The next method; `Serve` follows, with what answers it. Ends the program if the protos have no
  // such method with these messages.
  template <typename Request, typename Response>
  const Method& Add(const Rule& rule) {
    return Add(rule, DescriptorOf<Request>(), DescriptorOf<Response>());
  }
  const Method& Add(const Rule& rule, const google::protobuf::Descriptor* request,
                    const google::protobuf::Descriptor* response);
  template <typename Request>
  void Serve(grpc::internal::MethodHandler* handler) {
    const int last = static_cast<int>(methods_.size()) - 1;
    if constexpr (kIsRaw<Request>) {
      MarkMethodRawCallback(last, handler);
    } else {
      MarkMethodCallback(last, handler);
    }
  }

  const google::protobuf::ServiceDescriptor& descriptor_;
  const CallEnvironment calls_;
  // Calls and gRPC refer to what these hold.
  std::deque<Method> methods_;
  std::deque<std::string> paths_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_RPC_SERVICE_H_
