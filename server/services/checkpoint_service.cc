#include "server/services/checkpoint_service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "server/jobs/worker_sessions.h"
#include "server/rpc/errors.h"
#include "server/rpc/unary_call.h"
#include "server/services/checkpoint_import.h"
#include "server/services/checkpoint_name.h"
#include "server/services/file_chunk_source.h"
#include "server/services/job_name.h"
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

grpc::ServerUnaryReactor* CheckpointService::ListCheckpoints(
    grpc::CallbackServerContext* context, const v1::ListCheckpointsRequest* request,
    v1::ListCheckpointsResponse* response) {
  return ServeUnary(
      env_.lanes.reads, "lorsa.v1.CheckpointService.ListCheckpoints", context, request, response,
      [this](const auto& request, auto& response) { return List(request, response); });
}

grpc::ServerUnaryReactor* CheckpointService::GetCheckpoint(grpc::CallbackServerContext* context,
                                                           const v1::GetCheckpointRequest* request,
                                                           v1::Checkpoint* response) {
  return ServeUnary(env_.lanes.reads, "lorsa.v1.CheckpointService.GetCheckpoint", context, request,
                    response,
                    [this](const auto& request, auto& response) { return Get(request, response); });
}

grpc::ServerUnaryReactor* CheckpointService::PinCheckpoint(grpc::CallbackServerContext* context,
                                                           const v1::PinCheckpointRequest* request,
                                                           v1::Checkpoint* response) {
  return ServeUnary(env_.lanes.writes, "lorsa.v1.CheckpointService.PinCheckpoint", context, request,
                    response, [this](const auto& request, auto& response) {
                      return SetPinned(request.name(), true, response);
                    });
}

grpc::ServerUnaryReactor* CheckpointService::UnpinCheckpoint(
    grpc::CallbackServerContext* context, const v1::UnpinCheckpointRequest* request,
    v1::Checkpoint* response) {
  return ServeUnary(env_.lanes.writes, "lorsa.v1.CheckpointService.UnpinCheckpoint", context,
                    request, response, [this](const auto& request, auto& response) {
                      return SetPinned(request.name(), false, response);
                    });
}

grpc::ServerWriteReactor<v1::FileChunk>* CheckpointService::ReadFile(
    grpc::CallbackServerContext* context, const v1::ReadFileRequest* request) {
  return ServeStream<v1::FileChunk>(
      env_.lanes.data, "lorsa.v1.CheckpointService.ReadFile", context, request,
      [this, request](const Caller&, const Waker&) { return OpenFile(*request); });
}

grpc::ServerUnaryReactor* CheckpointService::DeleteCheckpoint(
    grpc::CallbackServerContext* context, const v1::DeleteCheckpointRequest* request,
    google::protobuf::Empty* response) {
  return ServeUnary(env_.lanes.files, "lorsa.v1.CheckpointService.DeleteCheckpoint", context,
                    request, response,
                    [this](const auto& request, auto&) { return Delete(request); });
}

grpc::ServerWriteReactor<v1::ImportCheckpointResponse>* CheckpointService::ImportCheckpoint(
    grpc::CallbackServerContext* context, const v1::ImportCheckpointRequest* request) {
  return ServeStream<v1::ImportCheckpointResponse>(
      env_.lanes.files, "lorsa.v1.CheckpointService.ImportCheckpoint", context, request,
      [this, request](const Caller&, Waker waker) {
        return OpenImport(*request, std::move(waker));
      });
}

absl::StatusOr<std::unique_ptr<StreamSource<v1::ImportCheckpointResponse>>>
CheckpointService::OpenImport(const v1::ImportCheckpointRequest& request, Waker waker) {
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

absl::Status CheckpointService::List(const v1::ListCheckpointsRequest& request,
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

absl::Status CheckpointService::Delete(const v1::DeleteCheckpointRequest& request) {
  LORSA_ASSIGN_OR_RETURN(const CheckpointStep at, ParseCheckpointStep(request.name(), "name"));
  return env_.jobs.sessions().publisher().Delete(at.job_id, at.step);
}

absl::Status CheckpointService::Get(const v1::GetCheckpointRequest& request,
                                    v1::Checkpoint& response) {
  LORSA_ASSIGN_OR_RETURN(const CheckpointName name, ParseCheckpointName(request.name(), "name"));
  LORSA_ASSIGN_OR_RETURN(response, FindCheckpoint(env_.catalog, name, "name"));
  return absl::OkStatus();
}

absl::Status CheckpointService::SetPinned(const std::string& name, bool pinned,
                                          v1::Checkpoint& response) {
  LORSA_ASSIGN_OR_RETURN(const CheckpointName parsed, ParseCheckpointName(name, "name"));
  LORSA_ASSIGN_OR_RETURN(const CheckpointChoice choose, ChoiceOf(parsed, "name"));
  LORSA_ASSIGN_OR_RETURN(response, env_.catalog.PinCheckpoint(parsed.job_id, choose, pinned));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<StreamSource<v1::FileChunk>>> CheckpointService::OpenFile(
    const v1::ReadFileRequest& request) {
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
