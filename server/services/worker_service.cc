#include "server/services/worker_service.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "server/rpc/bidi_stream.h"

namespace lorsa::server {
namespace {

class SessionHandler final : public BidiHandler<v1::WorkerMessage> {
 public:
  SessionHandler(WorkerSessions& sessions, AttemptKey attempt,
                 std::shared_ptr<WorkerConnection> connection)
      : sessions_(sessions), attempt_(std::move(attempt)), connection_(std::move(connection)) {}

  absl::Status OnMessage(const v1::WorkerMessage& message) override {
    if (message.has_hello() == greeted_) {
      return absl::InvalidArgumentError("a worker says hello once, first");
    }
    if (greeted_) return sessions_.Handle(attempt_, message, *connection_);
    LORSA_RETURN_IF_ERROR(sessions_.Hello(attempt_, message.hello(), connection_));
    greeted_ = true;
    return absl::OkStatus();
  }

  void OnClose() override { sessions_.Disconnected(attempt_, connection_.get()); }

 private:
  WorkerSessions& sessions_;
  const AttemptKey attempt_;
  const std::shared_ptr<WorkerConnection> connection_;
  bool greeted_ = false;
};

}  // namespace

grpc::ServerBidiReactor<v1::WorkerMessage, v1::ServerMessage>* WorkerService::Session(
    grpc::CallbackServerContext* context) {
  return ServeBidi<v1::WorkerMessage, v1::ServerMessage>(
      runtime_, "lorsa.v1.WorkerService.Session", context,
      [this](const Caller& caller, std::shared_ptr<WorkerConnection> connection)
          -> absl::StatusOr<std::unique_ptr<BidiHandler<v1::WorkerMessage>>> {
        return std::make_unique<SessionHandler>(sessions_, *caller.worker, std::move(connection));
      });
}

}  // namespace lorsa::server
