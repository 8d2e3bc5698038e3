#include "server/services/checkpoint_service.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "server/rpc/errors.h"
#include "server/rpc/unary_call.h"
#include "server/services/checkpoint_import.h"
#include "server/services/file_chunk_source.h"
#include "server/services/job_name.h"
#include "server/services/paging.h"
#include "server/services/set_pass.h"

namespace lorsa::server {
namespace {

constexpr absl::string_view kCollection = "/checkpoints/";

struct CheckpointName {
  std::string job_id;
  std::string checkpoint_id;  // step-000001000, best or latest
};

absl::StatusOr<CheckpointName> ParseName(const std::string& name) {
  const size_t split = name.find(kCollection.data());
  if (split == std::string::npos) {
    return InvalidField("name", "is not of the form jobs/JOB/checkpoints/CHECKPOINT");
  }
  LORSA_ASSIGN_OR_RETURN(const std::string job_id, JobIdFrom(name.substr(0, split), "name"));
  CheckpointName parsed{job_id, name.substr(split + kCollection.size())};
  LORSA_RETURN_IF_ERROR(ForField(ValidateId("checkpoint id", parsed.checkpoint_id), "name"));
  return parsed;
}

// 1000 from "step-000001000".
absl::StatusOr<int64_t> StepOf(const std::string& checkpoint_id, absl::string_view of_field) {
  absl::string_view digits = checkpoint_id;
  int64_t step = 0;
  if (!absl::ConsumePrefix(&digits, "step-") || !absl::SimpleAtoi(digits, &step) || step < 0 ||
      CheckpointId(step) != checkpoint_id) {
    return InvalidField(of_field,
                        absl::StrCat("'", checkpoint_id, "' is not a checkpoint's id such as ",
                                     CheckpointId(1000)));
  }
  return step;
}

bool IsAlias(const CheckpointName& name) {
  return name.checkpoint_id == "best" || name.checkpoint_id == "latest";
}

// Where it may become another checkpoint between two calls, and so not the one that is meant.
absl::Status AliasRefused() {
  return InvalidField("name", "must name a step: ask GetCheckpoint which one it is");
}

absl::Status NoCheckpointYet(const std::string& job_id, absl::string_view which) {
  return WithReason(
      absl::NotFoundError(absl::StrCat("job '", job_id, "' has no ", which, " checkpoint yet")),
      "NO_CHECKPOINT", {{"job", job_id}});
}

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

grpc::ServerUnaryReactor* CheckpointService::DeleteCheckpoint(
    grpc::CallbackServerContext* context, const v1::DeleteCheckpointRequest* request,
    google::protobuf::Empty* response) {
  return ServeUnary(env_.runtime, "lorsa.v1.CheckpointService.DeleteCheckpoint", context, request,
                    response, [this](const auto& request, auto&) { return Delete(request); });
}

grpc::ServerWriteReactor<v1::ImportCheckpointResponse>* CheckpointService::ImportCheckpoint(
    grpc::CallbackServerContext* context, const v1::ImportCheckpointRequest* request) {
  return ServeStream<v1::ImportCheckpointResponse>(
      env_.runtime, "lorsa.v1.CheckpointService.ImportCheckpoint", context,
      [this, request](Waker waker) { return OpenImport(*request, std::move(waker)); });
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
                                      .layout = env_.layout,
                                      .now = env_.now,
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
  LORSA_ASSIGN_OR_RETURN(const CheckpointName name, ParseName(request.name()));
  if (IsAlias(name)) return AliasRefused();
  LORSA_ASSIGN_OR_RETURN(const int64_t step, StepOf(name.checkpoint_id, "name"));
  LORSA_ASSIGN_OR_RETURN(const auto checkpoint, env_.catalog.GetCheckpoint(name.job_id, step));
  const absl::Status deleted = env_.publisher.Delete(name.job_id, step);
  if (!absl::IsFailedPrecondition(deleted)) return deleted;
  return WithReason(deleted, checkpoint.pinned() ? "CHECKPOINT_PINNED" : "CHECKPOINT_NEEDED",
                    {{"checkpoint", checkpoint.name()}});
}

absl::Status CheckpointService::Get(const v1::GetCheckpointRequest& request,
                                    v1::Checkpoint& response) {
  LORSA_ASSIGN_OR_RETURN(response, Find(request.name()));
  return absl::OkStatus();
}

absl::Status CheckpointService::SetPinned(const std::string& name, bool pinned,
                                          v1::Checkpoint& response) {
  LORSA_ASSIGN_OR_RETURN(const v1::Checkpoint checkpoint, Find(name));
  LORSA_ASSIGN_OR_RETURN(const CheckpointName parsed, ParseName(checkpoint.name()));
  LORSA_ASSIGN_OR_RETURN(response,
                         env_.catalog.PinCheckpoint(parsed.job_id, checkpoint.step(), pinned));
  return absl::OkStatus();
}

absl::StatusOr<v1::Checkpoint> CheckpointService::Find(const std::string& text) {
  LORSA_ASSIGN_OR_RETURN(const CheckpointName name, ParseName(text));
  if (name.checkpoint_id == "best") return Best(name.job_id);
  if (name.checkpoint_id == "latest") return Latest(name.job_id);
  LORSA_ASSIGN_OR_RETURN(const int64_t step, StepOf(name.checkpoint_id, "name"));
  return env_.catalog.GetCheckpoint(name.job_id, step);
}

absl::StatusOr<v1::Checkpoint> CheckpointService::Best(const std::string& job_id) {
  LORSA_ASSIGN_OR_RETURN(const auto checkpoints, env_.catalog.ListCheckpoints(job_id));
  const auto best = std::find_if(checkpoints.begin(), checkpoints.end(),
                                 [](const v1::Checkpoint& c) { return c.best(); });
  if (best == checkpoints.end()) return NoCheckpointYet(job_id, "evaluated");
  return *best;
}

absl::StatusOr<v1::Checkpoint> CheckpointService::Latest(const std::string& job_id) {
  LORSA_ASSIGN_OR_RETURN(const auto checkpoints, env_.catalog.ListCheckpoints(job_id));
  const auto latest = std::find_if(checkpoints.rbegin(), checkpoints.rend(),
                                   [](const v1::Checkpoint& c) { return c.damage().empty(); });
  if (latest == checkpoints.rend()) return NoCheckpointYet(job_id, "published");
  return *latest;
}

absl::StatusOr<std::unique_ptr<StreamSource<v1::FileChunk>>> CheckpointService::OpenFile(
    const v1::ReadFileRequest& request) {
  LORSA_ASSIGN_OR_RETURN(const CheckpointName name, ParseName(request.name()));
  if (IsAlias(name)) return AliasRefused();
  LORSA_ASSIGN_OR_RETURN(const int64_t step, StepOf(name.checkpoint_id, "name"));
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
