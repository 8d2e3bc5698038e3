#include "server/services/checkpoint_service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error_details.h"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "server/jobs/checkpoint_name.h"
#include "server/jobs/job_name.h"
#include "server/jobs/worker_sessions.h"
#include "server/services/checkpoint_import.h"
#include "server/services/file_chunk_source.h"
#include "server/services/paging.h"
#include "server/services/set_pass.h"

namespace lorsa::server {
namespace {

absl::StatusOr<v1::CheckpointFile> FindFile(const v1::Checkpoint& checkpoint,
                                            const std::string& name) {
  std::vector<std::string> names;
  for (const v1::CheckpointFile& file : checkpoint.files()) {
    if (file.name() == name) return file;
    names.push_back(file.name());
  }
  return WithReason(
      absl::NotFoundError(absl::StrCat(checkpoint.name(), " has no file of that name: it has ",
                                       absl::StrJoin(names, ", "))),
      "NO_SUCH_FILE");
}

}  // namespace

CheckpointService::CheckpointService(CheckpointServiceEnvironment environment)
    : RpcService("lorsa.v1.CheckpointService", environment.calls),
      env_(std::move(environment)),
      imports_(1) {
  const CallLanes& lanes = env_.lanes;
  Unary({"ListCheckpoints", Access::kAnyone, lanes.reads}, *this, &CheckpointService::List);
  Unary({"GetCheckpoint", Access::kAnyone, lanes.reads}, *this, &CheckpointService::Get);
  Unary({"PinCheckpoint", Access::kAnyone, lanes.writes}, *this,
        &CheckpointService::SetPinned<v1::PinCheckpointRequest, true>);
  Unary({"UnpinCheckpoint", Access::kAnyone, lanes.writes}, *this,
        &CheckpointService::SetPinned<v1::UnpinCheckpointRequest, false>);
  Unary({"DeleteCheckpoint", Access::kAnyone, lanes.files}, *this, &CheckpointService::Delete);
  ServerStreaming({"ReadFile", Access::kAnyone, lanes.downloads}, *this,
                  &CheckpointService::OpenFile);
  ServerStreaming({"ImportCheckpoint", Access::kAnyone, lanes.files}, *this,
                  &CheckpointService::OpenImport);
}

OpenedSource<v1::ImportCheckpointResponse> CheckpointService::OpenImport(
    const Caller&, const v1::ImportCheckpointRequest& request, Waker waker) {
  const std::string& job_id = request.job_id();
  LORSA_RETURN_IF_ERROR(ForField(ValidateId("job_id", job_id), "job_id"));
  LORSA_ASSIGN_OR_RETURN(const std::string folder, env_.roots.Resolve(request.path()));
  return std::make_unique<SetPass<v1::ImportCheckpointResponse>>(
      imports_, std::move(waker), env_.now,
      [this, job_id, folder](
          const store::ProgressFunction& progress) -> absl::StatusOr<v1::ImportCheckpointResponse> {
        v1::ImportCheckpointResponse response;
        LORSA_ASSIGN_OR_RETURN(
            *response.mutable_checkpoint(),
            server::ImportCheckpoint({.catalog = env_.catalog,
                                      .fs = env_.fs,
                                      .jobs = env_.jobs,
                                      .inspector = env_.inspector,
                                      .layout = env_.layout,
                                      .disk_reserve_bytes = env_.disk_reserve_bytes},
                                     job_id, folder, progress));
        return response;
      });
}

absl::Status CheckpointService::List(const Caller&, const v1::ListCheckpointsRequest& request,
                                     v1::ListCheckpointsResponse& response) {
  LORSA_ASSIGN_OR_RETURN(const std::string job_id, JobIdFrom(request.parent(), "parent"));
  LORSA_ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size()));
  LORSA_ASSIGN_OR_RETURN(auto checkpoints, env_.catalog.ListCheckpoints(job_id));
  if (!request.page_token().empty()) {
    // The token is the id that the page before ended with; it may have been deleted since.
    LORSA_ASSIGN_OR_RETURN(const int64_t last, StepOf(request.page_token(), "page_token"));
    std::erase_if(checkpoints, [&](const v1::Checkpoint& c) { return c.step() <= last; });
  }
  if (const size_t fit = ItemsInPage(checkpoints, page_size); fit < checkpoints.size()) {
    checkpoints.resize(fit);
    response.set_next_page_token(CheckpointId(checkpoints.back().step()));
  }
  for (auto& checkpoint : checkpoints) *response.add_checkpoints() = std::move(checkpoint);
  return absl::OkStatus();
}

absl::Status CheckpointService::Delete(const Caller&, const v1::DeleteCheckpointRequest& request,
                                       google::protobuf::Empty&) {
  LORSA_ASSIGN_OR_RETURN(const CheckpointStep at, ParseCheckpointStep(request.name(), "name"));
  return env_.jobs.sessions().publisher().Delete(at.job_id, at.step);
}

absl::Status CheckpointService::Get(const Caller&, const v1::GetCheckpointRequest& request,
                                    v1::Checkpoint& response) {
  LORSA_ASSIGN_OR_RETURN(const CheckpointName name, ParseCheckpointName(request.name(), "name"));
  LORSA_ASSIGN_OR_RETURN(response, FindCheckpoint(env_.catalog, name, "name"));
  return absl::OkStatus();
}

template <typename Request, bool pinned>
absl::Status CheckpointService::SetPinned(const Caller&, const Request& request,
                                          v1::Checkpoint& response) {
  LORSA_ASSIGN_OR_RETURN(const CheckpointName name, ParseCheckpointName(request.name(), "name"));
  LORSA_ASSIGN_OR_RETURN(const CheckpointChoice choose, ChoiceOf(name, "name"));
  LORSA_ASSIGN_OR_RETURN(response, env_.catalog.PinCheckpoint(name.job_id, choose, pinned));
  return absl::OkStatus();
}

OpenedSource<v1::FileChunk> CheckpointService::OpenFile(const Caller&,
                                                        const v1::ReadFileRequest& request, Waker) {
  LORSA_ASSIGN_OR_RETURN(const CheckpointStep at, ParseCheckpointStep(request.name(), "name"));
  LORSA_ASSIGN_OR_RETURN(const auto checkpoint, env_.catalog.GetCheckpoint(at.job_id, at.step));
  // Only a name from the catalog's list is ever part of a path.
  LORSA_ASSIGN_OR_RETURN(const v1::CheckpointFile file, FindFile(checkpoint, request.file()));
  if (!request.expected_sha256().empty() && request.expected_sha256() != file.sha256()) {
    return WithReason(absl::AbortedError(absl::StrCat(
                          request.name(), " was published again and its ", file.name(),
                          " is another file now: start the download from the beginning")),
                      "FILE_CHANGED");
  }
  return FileChunkSource::Open(
      env_.fs, {.path = JoinPath(env_.layout.CheckpointFolder(at.job_id, at.step), file.name()),
                .size = file.size_bytes(),
                .sha256 = file.sha256(),
                .offset = request.offset(),
                .limit = request.limit()});
}

}  // namespace lorsa::server
