#include "server/services/checkpoint_service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "server/rpc/errors.h"
#include "server/rpc/unary_call.h"
#include "server/services/checkpoint_name.h"
#include "server/services/file_chunk_source.h"
#include "server/services/job_name.h"

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
      env_.runtime, "lorsa.v1.CheckpointService.ListCheckpoints", context, request, response,
      [this](const auto& request, auto& response) { return List(request, response); });
}

grpc::ServerUnaryReactor* CheckpointService::GetCheckpoint(grpc::CallbackServerContext* context,
                                                           const v1::GetCheckpointRequest* request,
                                                           v1::Checkpoint* response) {
  return ServeUnary(env_.runtime, "lorsa.v1.CheckpointService.GetCheckpoint", context, request,
                    response,
                    [this](const auto& request, auto& response) { return Get(request, response); });
}

grpc::ServerUnaryReactor* CheckpointService::PinCheckpoint(grpc::CallbackServerContext* context,
                                                           const v1::PinCheckpointRequest* request,
                                                           v1::Checkpoint* response) {
  return ServeUnary(env_.runtime, "lorsa.v1.CheckpointService.PinCheckpoint", context, request,
                    response, [this](const auto& request, auto& response) {
                      return SetPinned(request.name(), true, response);
                    });
}

grpc::ServerUnaryReactor* CheckpointService::UnpinCheckpoint(
    grpc::CallbackServerContext* context, const v1::UnpinCheckpointRequest* request,
    v1::Checkpoint* response) {
  return ServeUnary(env_.runtime, "lorsa.v1.CheckpointService.UnpinCheckpoint", context, request,
                    response, [this](const auto& request, auto& response) {
                      return SetPinned(request.name(), false, response);
                    });
}

grpc::ServerWriteReactor<v1::FileChunk>* CheckpointService::ReadFile(
    grpc::CallbackServerContext* context, const v1::ReadFileRequest* request) {
  return ServeStream<v1::FileChunk>(env_.runtime, "lorsa.v1.CheckpointService.ReadFile", context,
                                    [this, request](const Waker&) { return OpenFile(*request); });
}

absl::Status CheckpointService::List(const v1::ListCheckpointsRequest& request,
                                     v1::ListCheckpointsResponse& response) {
  LORSA_ASSIGN_OR_RETURN(const std::string job_id, JobIdFrom(request.parent(), "parent"));
  LORSA_ASSIGN_OR_RETURN(auto checkpoints, env_.catalog.ListCheckpoints(job_id));
  for (auto& checkpoint : checkpoints) *response.add_checkpoints() = std::move(checkpoint);
  return absl::OkStatus();
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
  LORSA_ASSIGN_OR_RETURN(const v1::Checkpoint checkpoint,
                         FindCheckpoint(env_.catalog, parsed, "name"));
  LORSA_ASSIGN_OR_RETURN(response,
                         env_.catalog.PinCheckpoint(parsed.job_id, checkpoint.step(), pinned));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<StreamSource<v1::FileChunk>>> CheckpointService::OpenFile(
    const v1::ReadFileRequest& request) {
  LORSA_ASSIGN_OR_RETURN(const CheckpointName name, ParseCheckpointName(request.name(), "name"));
  if (name.is_alias()) {
    // Between two reads it may become another checkpoint, and the files would not fit together.
    return InvalidField("name", "must name a step: ask GetCheckpoint which one it is");
  }
  LORSA_ASSIGN_OR_RETURN(const int64_t step, StepOf(name, "name"));
  LORSA_ASSIGN_OR_RETURN(const auto checkpoint, env_.catalog.GetCheckpoint(name.job_id, step));
  // Only a name from the catalog's list is ever part of a path.
  LORSA_ASSIGN_OR_RETURN(const v1::CheckpointFile file, FindFile(checkpoint, request.file()));
  if (!request.expected_sha256().empty() && request.expected_sha256() != file.sha256()) {
    return WithReason(absl::AbortedError(absl::StrCat(
                          request.name(), " was published again and its ", file.name(),
                          " is another file now: start the download from the beginning")),
                      "FILE_CHANGED");
  }
  return FileChunkSource::Open(
      env_.fs, {.path = JoinPath(env_.layout.CheckpointFolder(name.job_id, step), file.name()),
                .size = file.size_bytes(),
                .sha256 = file.sha256(),
                .offset = request.offset(),
                .limit = request.limit()});
}

}  // namespace lorsa::server
