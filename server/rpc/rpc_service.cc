#include "server/rpc/rpc_service.h"

#include <grpcpp/impl/rpc_service_method.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace lorsa::server {
namespace {

// What cannot be in a program that was tested: its services are made at every start.
void Require(bool holds, const std::string& method, const char* what) {
  if (holds) return;
  spdlog::critical("event=wrong_method method={} error=\"{}\"", method, what);
  std::abort();
}

const google::protobuf::ServiceDescriptor& DescriptorOfService(absl::string_view name) {
  const auto* const descriptor =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(std::string(name));
  Require(descriptor != nullptr, std::string(name), "the protos have no such service");
  return *descriptor;
}

grpc::internal::RpcMethod::RpcType KindOf(const google::protobuf::MethodDescriptor& method) {
  using grpc::internal::RpcMethod;
  if (method.client_streaming()) {
    return method.server_streaming() ? RpcMethod::BIDI_STREAMING : RpcMethod::CLIENT_STREAMING;
  }
  return method.server_streaming() ? RpcMethod::SERVER_STREAMING : RpcMethod::NORMAL_RPC;
}

}  // namespace

RpcService::RpcService(absl::string_view name, const CallEnvironment& calls)
    : descriptor_(DescriptorOfService(name)), calls_(calls) {}

const Method& RpcService::Add(const Rule& rule, const google::protobuf::Descriptor* request,
                              const google::protobuf::Descriptor* response) {
  const auto* const method = descriptor_.FindMethodByName(std::string(rule.name));
  Require(method != nullptr, std::string(rule.name), "the service has no such method");
  Require(request == nullptr || request == method->input_type(), method->full_name(),
          "its request is another message");
  Require(response == nullptr || response == method->output_type(), method->full_name(),
          "its response is another message");
  paths_.push_back(absl::StrCat("/", descriptor_.full_name(), "/", rule.name));
  AddMethod(new grpc::internal::RpcServiceMethod(paths_.back().c_str(), KindOf(*method), nullptr));
  return methods_.emplace_back(Method{.name = method->full_name(),
                                      .access = rule.access,
                                      .executor = rule.executor,
                                      .calls = calls_,
                                      .records = calls_.records.Of(method->full_name())});
}

}  // namespace lorsa::server
