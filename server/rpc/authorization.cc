#include "server/rpc/authorization.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/rpc/errors.h"

namespace lorsa::server {
namespace {

// In order of name.
constexpr MethodRule kRules[] = {
    {"lorsa.v1.ActivationService.DeleteActivationSet", Access::kAnyone},
    {"lorsa.v1.ActivationService.GetActivationSet", Access::kAnyone},
    {"lorsa.v1.ActivationService.GetUpload", Access::kAnyone},
    {"lorsa.v1.ActivationService.ListActivationSets", Access::kAnyone},
    {"lorsa.v1.ActivationService.QuarantineActivationSet", Access::kAnyone},
    {"lorsa.v1.ActivationService.ReadAttentionWeights", Access::kAnyone},
    {"lorsa.v1.ActivationService.RegisterActivationSet", Access::kAnyone},
    {"lorsa.v1.ActivationService.StreamSequences", Access::kAnyone},
    {"lorsa.v1.ActivationService.UploadShard", Access::kAnyone},
    {"lorsa.v1.ActivationService.VerifyActivationSet", Access::kAnyone},
    {"lorsa.v1.CheckpointService.DeleteCheckpoint", Access::kAnyone},
    {"lorsa.v1.CheckpointService.GetCheckpoint", Access::kAnyone},
    {"lorsa.v1.CheckpointService.ImportCheckpoint", Access::kAnyone},
    {"lorsa.v1.CheckpointService.ListCheckpoints", Access::kAnyone},
    {"lorsa.v1.CheckpointService.PinCheckpoint", Access::kAnyone},
    {"lorsa.v1.CheckpointService.ReadFile", Access::kAnyone},
    {"lorsa.v1.CheckpointService.UnpinCheckpoint", Access::kAnyone},
    {"lorsa.v1.JobService.CancelJob", Access::kAnyone},
    {"lorsa.v1.JobService.CancelSweep", Access::kAnyone},
    {"lorsa.v1.JobService.CreateJob", Access::kAnyone},
    {"lorsa.v1.JobService.CreateSweep", Access::kAnyone},
    {"lorsa.v1.JobService.DeleteJob", Access::kAnyone},
    {"lorsa.v1.JobService.ForkJob", Access::kAnyone},
    {"lorsa.v1.JobService.GetJob", Access::kAnyone},
    {"lorsa.v1.JobService.GetSweep", Access::kAnyone},
    {"lorsa.v1.JobService.ListJobs", Access::kAnyone},
    {"lorsa.v1.JobService.ListSweeps", Access::kAnyone},
    {"lorsa.v1.JobService.PauseJob", Access::kAnyone},
    {"lorsa.v1.JobService.ReadLogs", Access::kAnyone},
    {"lorsa.v1.JobService.ResumeJob", Access::kAnyone},
    {"lorsa.v1.JobService.RetryJob", Access::kAnyone},
    {"lorsa.v1.JobService.WatchJob", Access::kAnyone},
    {"lorsa.v1.MetricService.QueryMetrics", Access::kAnyone},
    {"lorsa.v1.MetricService.StreamMetrics", Access::kAnyone},
    {"lorsa.v1.ServerInfoService.GetServerInfo", Access::kAnyone},
    {"lorsa.v1.WorkerService.GetStagedUpload", Access::kWorker},
    {"lorsa.v1.WorkerService.ReadInitialCheckpoint", Access::kWorker},
    {"lorsa.v1.WorkerService.Session", Access::kWorker},
    {"lorsa.v1.WorkerService.StoreRollbacks", Access::kWorker},
    {"lorsa.v1.WorkerService.UploadStagedFile", Access::kWorker},
};

constexpr char kTokenHeader[] = "authorization";
constexpr size_t kMaxTokenBytes = 256;

// "ipv4:127.0.0.1:4242" without its port.
std::string HostOf(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

}  // namespace

absl::Span<const MethodRule> MethodRules() { return kRules; }

absl::StatusOr<Caller> TableAuthorizer::Authorize(
    absl::string_view method, const grpc::CallbackServerContext& context) const {
  const auto rule = std::find_if(rules_.begin(), rules_.end(),
                                 [&](const MethodRule& rule) { return rule.method == method; });
  if (rule == rules_.end()) {
    return WithReason(
        absl::PermissionDeniedError(absl::StrCat("no rule lets anybody call ", method)), "NO_RULE",
        {{"method", std::string(method)}});
  }
  Caller caller{.host = HostOf(context.peer())};
  const bool workers_alone = rule->access == Access::kWorker;
  if (!workers_alone && context.client_metadata().count(kTokenHeader) == 0) return caller;
  absl::StatusOr<AttemptKey> worker = WorkerOf(context);
  if (!worker.ok() && workers_alone) return std::move(worker).status();
  if (worker.ok()) caller.worker = *std::move(worker);
  return caller;
}

absl::StatusOr<AttemptKey> TableAuthorizer::WorkerOf(
    const grpc::CallbackServerContext& context) const {
  const auto header = context.client_metadata().find(kTokenHeader);
  absl::string_view token;
  if (header != context.client_metadata().end()) {
    token = absl::string_view(header->second.data(), header->second.size());
  }
  if (!absl::ConsumePrefix(&token, "Bearer ") || token.empty() || token.size() > kMaxTokenBytes) {
    return WithReason(absl::UnauthenticatedError(
                          "only workers may call this: send the attempt's token as metadata "
                          "'authorization: Bearer TOKEN'"),
                      "WORKER_TOKEN_MISSING");
  }
  return tokens_.VerifyWorkerToken(token);
}

}  // namespace lorsa::server
