// A connection to lorsad.
//
//   auto client = Client::Create({.server = "127.0.0.1:7070"});
//   v1::GetJobRequest request;
//   request.set_name("jobs/first");
//   absl::StatusOr<v1::Job> job = (*client)->Call(&v1::JobService::Stub::GetJob, request);
//
// What takes more than one call has a function of its own: job_submit.h, job_watch.h, job_log.h,
// metric_stream.h, checkpoint_download.h and set_upload.h. The headers in lorsa/client and those
// generated from the .proto files of lorsa.v1 that they include are this library's public ones.
#ifndef LORSA_CLIENT_CLIENT_H_
#define LORSA_CLIENT_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lorsa/client/call_registry.h"
#include "lorsa/client/errors.h"
#include "lorsa/v1/activation_service.grpc.pb.h"
#include "lorsa/v1/checkpoint_service.grpc.pb.h"
#include "lorsa/v1/job_service.grpc.pb.h"
#include "lorsa/v1/metric_service.grpc.pb.h"
#include "lorsa/v1/server_info_service.grpc.pb.h"

namespace lorsa {
class FileSystem;
}

namespace lorsa::client {

struct ClientOptions {
  std::string server = "127.0.0.1:7070";  // HOST:PORT
  // Of a call with one answer; streams have none (keepalive finds dead connections).
  absl::Duration call_deadline = absl::Seconds(30);
  // Pause before a broken stream connects again: doubled after each failure up to the maximum.
  absl::Duration initial_backoff = absl::Milliseconds(200);
  absl::Duration max_backoff = absl::Seconds(2);
  // A stream gives up when its pauses since the last message add up to this.
  absl::Duration max_outage = absl::Minutes(10);
  // What downloads write to and uploads read from; not owned, outlives the client. nullptr: the
  // machine's own. For tests that make it fail.
  FileSystem* file_system = nullptr;
};

// Told of each break of a stream: why, and the pause before the next try.
using OutageFunction = std::function<void(const absl::Status& why, absl::Duration pause)>;

// Thread-safe; connects when first used. Errors are those of errors.h, and CANCELLED after Cancel.
class Client {
 public:
  // INVALID_ARGUMENT unless options.server has the form HOST:PORT.
  static absl::StatusOr<std::unique_ptr<Client>> Create(const ClientOptions& options);
  // No call may be under way; see Cancel.
  ~Client();

  const std::string& server() const { return options_.server; }
  FileSystem& file_system() const { return *file_system_; }
  // Whether any call has been answered, be it with an error of the server.
  bool answered() const { return answered_; }

  // A call with one answer. Reads, and the calls that have a request_id, are repeated by gRPC
  // when the connection breaks; the others may have taken effect when UNAVAILABLE comes back.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const Request& request) {
    RegisteredCall call(registry_);
    call.context().set_deadline(absl::ToChronoTime(absl::Now() + options_.call_deadline));
    Response response;
    const absl::Status status =
        Finished((StubFor<Stub>().*method)(&call.context(), request, &response));
    if (!IsTransient(status)) answered_ = true;
    if (!status.ok()) return status;
    return response;
  }

  // A call with a stream of answers, on one connection. An error of `on_message` ends the call and
  // is returned.
  template <typename Stub, typename Request, typename Response>
  absl::Status Stream(
      std::unique_ptr<grpc::ClientReader<Response>> (Stub::*method)(grpc::ClientContext*,
                                                                    const Request&),
      const Request& request,
      absl::FunctionRef<absl::Status(const std::type_identity_t<Response>&)> on_message) {
    RegisteredCall call(registry_);
    const auto reader = (StubFor<Stub>().*method)(&call.context(), request);
    Response response;
    absl::Status refused;
    while (refused.ok() && reader->Read(&response)) {
      answered_ = true;
      refused = on_message(response);
    }
    if (!refused.ok()) call.context().TryCancel();
    const absl::Status status = Finished(reader->Finish());
    return refused.ok() ? status : refused;
  }

  // A call with a stream of requests and one answer, on one connection. `next` fills the next
  // request or returns false if there is none; an error of it ends the call and is returned. A
  // server that answers before the end is listened to.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Send(
      std::unique_ptr<grpc::ClientWriter<Request>> (Stub::*method)(grpc::ClientContext*, Response*),
      absl::FunctionRef<absl::StatusOr<bool>(std::type_identity_t<Request>&)> next) {
    RegisteredCall call(registry_);
    Response response;
    const auto writer = (StubFor<Stub>().*method)(&call.context(), &response);
    Request request;
    absl::StatusOr<bool> more = next(request);
    while (more.ok() && *more && writer->Write(request)) more = next(request);
    if (!more.ok()) call.context().TryCancel();
    writer->WritesDone();
    const absl::Status status = Finished(writer->Finish());
    if (!IsTransient(status)) answered_ = true;
    if (!more.ok()) return more.status();
    if (!status.ok()) return status;
    return response;
  }

  // Runs `connect` until it returns OK or an error that is not transient, pausing between the
  // tries. `connect` sets its argument to true if it received something. A server that never
  // answered this client is reported at once.
  absl::Status KeepConnected(absl::FunctionRef<absl::Status(bool& received)> connect,
                             const OutageFunction& on_outage);

  // False if Cancel came before `duration` had passed.
  bool SleepFor(absl::Duration duration) { return registry_.SleepFor(duration); }

  // Ends all calls, now and later. For good.
  void Cancel() { registry_.Cancel(); }

 private:
  template <typename... Services>
  using Stubs = std::tuple<std::unique_ptr<typename Services::Stub>...>;

  explicit Client(const ClientOptions& options);

  template <typename Stub>
  Stub& StubFor() {
    return *std::get<std::unique_ptr<Stub>>(stubs_);
  }
  absl::Status Finished(const grpc::Status& status) const;

  const ClientOptions options_;
  const std::unique_ptr<FileSystem> own_file_system_;  // null if the options name one
  FileSystem* const file_system_;
  CallRegistry registry_;
  std::atomic<bool> answered_ = false;
  Stubs<v1::ActivationService, v1::CheckpointService, v1::JobService, v1::MetricService,
        v1::ServerInfoService>
      stubs_;
};

}  // namespace lorsa::client

#endif  // LORSA_CLIENT_CLIENT_H_
