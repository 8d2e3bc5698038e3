#include "client/cpp/testing/fake_services.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/crc32c.h"
#include "base/sha256.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace lorsa::client {
namespace {

template <typename Resource>
grpc::Status FindResource(const std::map<std::string, Resource>& resources, const std::string& name,
                          Resource* found) {
  const auto it = resources.find(name);
  if (it == resources.end()) {
    return DetailedError(grpc::StatusCode::NOT_FOUND, absl::StrCat("there is no ", name),
                         "NOT_FOUND");
  }
  *found = it->second;
  return grpc::Status::OK;
}

}  // namespace

grpc::Status DetailedError(grpc::StatusCode code, const std::string& message,
                           const std::string& reason,
                           const std::vector<std::pair<std::string, std::string>>& violations) {
  google::rpc::Status status;
  status.set_code(code);
  status.set_message(message);
  google::rpc::ErrorInfo info;
  info.set_domain("lorsa");
  info.set_reason(reason);
  status.add_details()->PackFrom(info);
  if (!violations.empty()) {
    google::rpc::BadRequest bad_request;
    for (const auto& [field, description] : violations) {
      auto* violation = bad_request.add_field_violations();
      violation->set_field(field);
      violation->set_description(description);
    }
    status.add_details()->PackFrom(bad_request);
  }
  return grpc::Status(code, message, status.SerializeAsString());
}

v1::JobEvent MakeEvent(int64_t revision, v1::JobState from, v1::JobState to,
                       const std::string& message) {
  v1::JobEvent event;
  event.set_revision(revision);
  event.mutable_time()->set_seconds(1'795'994'000 + revision);  // 2026-11-29T23:13:20Z and later
  event.set_attempt(1);
  event.set_from_state(from);
  event.set_to_state(to);
  event.set_message(message);
  return event;
}

grpc::Status FakeJobService::Find(const std::string& name, v1::Job* job) const {
  return FindResource(jobs, name, job);
}

grpc::Status FakeJobService::Change(const std::string& name, v1::JobState state, v1::Job* job) {
  if (const auto it = jobs.find(name); it != jobs.end()) it->second.set_state(state);
  return Find(name, job);
}

grpc::Status FakeJobService::CreateJob(grpc::ServerContext*, const v1::CreateJobRequest* request,
                                       v1::Job* job) {
  created.push_back(*request);
  if (!create_error.ok()) return create_error;
  job->set_name("jobs/" + request->job_id());
  *job->mutable_spec() = request->spec();
  *job->mutable_resolved_spec() = request->spec();
  job->mutable_resolved_spec()->mutable_training()->set_seed(0);
  if (request->validate_only()) {
    job->mutable_estimate()->set_memory_bytes(1'380'000'000);
    job->mutable_estimate()->mutable_time()->set_seconds(252);
    return grpc::Status::OK;
  }
  job->set_state(v1::JOB_STATE_QUEUED);
  jobs[job->name()] = *job;
  return grpc::Status::OK;
}

grpc::Status FakeJobService::GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                                    v1::Job* job) {
  return Find(request->name(), job);
}

grpc::Status FakeJobService::ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                                      v1::ListJobsResponse* response) {
  // The page token is the name that the page begins with.
  for (auto it = jobs.lower_bound(request->page_token()); it != jobs.end(); ++it) {
    if (request->state() != v1::JOB_STATE_UNSPECIFIED && request->state() != it->second.state()) {
      continue;
    }
    if (!request->sweep().empty() && request->sweep() != it->second.sweep()) continue;
    const bool labelled =
        std::all_of(request->labels().begin(), request->labels().end(), [&](const auto& wanted) {
          const auto& labels = it->second.policy().labels();
          const auto found = labels.find(wanted.first);
          return found != labels.end() && found->second == wanted.second;
        });
    if (!labelled) continue;
    if (response->jobs_size() == std::min(request->page_size(), 2)) {
      response->set_next_page_token(it->first);
      break;
    }
    *response->add_jobs() = it->second;
  }
  return grpc::Status::OK;
}

grpc::Status FakeJobService::PauseJob(grpc::ServerContext*, const v1::PauseJobRequest* request,
                                      v1::Job* job) {
  return Change(request->name(), v1::JOB_STATE_PAUSING, job);
}

grpc::Status FakeJobService::ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest* request,
                                       v1::Job* job) {
  return Change(request->name(), v1::JOB_STATE_QUEUED, job);
}

grpc::Status FakeJobService::CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                                       v1::Job* job) {
  return Change(request->name(), v1::JOB_STATE_CANCELLING, job);
}

grpc::Status FakeJobService::ForkJob(grpc::ServerContext*, const v1::ForkJobRequest* request,
                                     v1::Job* job) {
  forked.push_back(*request);
  job->set_name("jobs/" + request->job_id());
  job->set_forked_from(request->checkpoint());
  return grpc::Status::OK;
}

grpc::Status FakeJobService::UpdateJob(grpc::ServerContext*, const v1::UpdateJobRequest* request,
                                       v1::Job* job) {
  updated.push_back(*request);
  job->set_name(request->job().name());
  return grpc::Status::OK;
}

grpc::Status FakeJobService::RetryJob(grpc::ServerContext*, const v1::RetryJobRequest* request,
                                      v1::Job* job) {
  return Change(request->name(), v1::JOB_STATE_QUEUED, job);
}

grpc::Status FakeJobService::DeleteJob(grpc::ServerContext*, const v1::DeleteJobRequest* request,
                                       google::protobuf::Empty*) {
  deleted.push_back(*request);
  v1::Job job;
  return Find(request->name(), &job);
}

grpc::Status FakeJobService::CreateSweep(grpc::ServerContext*,
                                         const v1::CreateSweepRequest* request, v1::Sweep* sweep) {
  created_sweeps.push_back(*request);
  sweep->set_name("sweeps/" + request->sweep_id());
  sweep->set_jobs(4);
  return grpc::Status::OK;
}

grpc::Status FakeJobService::GetSweep(grpc::ServerContext*, const v1::GetSweepRequest* request,
                                      v1::Sweep* sweep) {
  return FindResource(sweeps, request->name(), sweep);
}

grpc::Status FakeJobService::ListSweeps(grpc::ServerContext*, const v1::ListSweepsRequest*,
                                        v1::ListSweepsResponse* response) {
  for (const auto& [name, sweep] : sweeps) *response->add_sweeps() = sweep;
  return grpc::Status::OK;
}

grpc::Status FakeJobService::CancelSweep(grpc::ServerContext*,
                                         const v1::CancelSweepRequest* request, v1::Sweep* sweep) {
  return FindResource(sweeps, request->name(), sweep);
}

grpc::Status FakeJobService::WatchJob(grpc::ServerContext*, const v1::WatchJobRequest* request,
                                      grpc::ServerWriter<v1::WatchJobResponse>* writer) {
  if (watch) return watch(*request, *writer);
  v1::WatchJobResponse response;
  const grpc::Status status = Find(request->name(), response.mutable_job());
  if (status.ok()) writer->Write(response);
  return status;
}

grpc::Status FakeJobService::ReadLogs(grpc::ServerContext*, const v1::ReadLogsRequest* request,
                                      grpc::ServerWriter<v1::ReadLogsResponse>* writer) {
  v1::Job job;
  const grpc::Status status = Find(request->name(), &job);
  if (!status.ok()) return status;
  // Positions count messages.
  const auto first = static_cast<size_t>(request->start().offset());
  size_t last = logs.size();
  if (!log_cuts.empty()) {
    last = std::min(last, first + log_cuts.front());
    log_cuts.pop_front();
  }
  for (size_t i = first; i < last; ++i) {
    v1::ReadLogsResponse response = logs[i];
    response.mutable_end()->set_offset(static_cast<int64_t>(i + 1));
    writer->Write(response);
  }
  return last == logs.size() ? grpc::Status::OK
                             : grpc::Status(grpc::StatusCode::UNAVAILABLE, "cut");
}

grpc::Status FakeMetricService::StreamMetrics(
    grpc::ServerContext*, const v1::StreamMetricsRequest* request,
    grpc::ServerWriter<v1::StreamMetricsResponse>* writer) {
  if (stream) return stream(*request, *writer);
  v1::StreamMetricsResponse response;
  for (const v1::MetricPoint& point : points) {
    if (point.sequence() <= request->after_sequence()) continue;
    if (request->kind() != v1::METRIC_KIND_UNSPECIFIED && request->kind() != point.kind()) continue;
    *response.add_points() = point;
  }
  if (!request->history_only()) response.set_final_state(v1::JOB_STATE_SUCCEEDED);
  writer->Write(response);
  return grpc::Status::OK;
}

grpc::Status FakeMetricService::QueryMetrics(grpc::ServerContext*,
                                             const v1::QueryMetricsRequest* request,
                                             v1::QueryMetricsResponse* response) {
  for (const v1::MetricPoint& point : points) {
    if (point.kind() != request->kind() || point.step() < request->start_step()) continue;
    if (request->end_step() != 0 && point.step() >= request->end_step()) continue;
    if (response->points_size() == std::min(request->page_size(), 2)) {
      response->set_next_step(point.step());
      break;
    }
    *response->add_points() = point;
  }
  return grpc::Status::OK;
}

v1::Checkpoint& FakeCheckpointService::Add(const std::string& name,
                                           const std::map<std::string, std::string>& contents) {
  v1::Checkpoint& checkpoint = checkpoints[name];
  checkpoint.set_name(name);
  for (const auto& [file, bytes] : contents) {
    files[file] = bytes;
    v1::CheckpointFile& entry = *checkpoint.add_files();
    entry.set_name(file);
    entry.set_size_bytes(static_cast<int64_t>(bytes.size()));
    entry.set_sha256(Sha256Hex(bytes));
  }
  return checkpoint;
}

grpc::Status FakeCheckpointService::ListCheckpoints(grpc::ServerContext*,
                                                    const v1::ListCheckpointsRequest* request,
                                                    v1::ListCheckpointsResponse* response) {
  for (const auto& [name, checkpoint] : checkpoints) {
    if (name == checkpoint.name() && absl::StartsWith(name, request->parent() + "/")) {
      *response->add_checkpoints() = checkpoint;
    }
  }
  return grpc::Status::OK;
}

grpc::Status FakeCheckpointService::GetCheckpoint(grpc::ServerContext*,
                                                  const v1::GetCheckpointRequest* request,
                                                  v1::Checkpoint* checkpoint) {
  return FindResource(checkpoints, request->name(), checkpoint);
}

grpc::Status FakeCheckpointService::ReadFile(grpc::ServerContext*,
                                             const v1::ReadFileRequest* request,
                                             grpc::ServerWriter<v1::FileChunk>* writer) {
  ++reads;
  const std::string& bytes = files.at(request->file());
  const std::string sha256 = Sha256Hex(bytes);
  if (!request->expected_sha256().empty() && request->expected_sha256() != sha256) {
    return DetailedError(grpc::StatusCode::ABORTED, "the file has changed", "FILE_CHANGED");
  }
  for (size_t offset = request->offset(); offset < bytes.size(); offset += chunk_bytes) {
    v1::FileChunk chunk;
    chunk.set_data(bytes.substr(offset, chunk_bytes));
    chunk.set_offset(static_cast<int64_t>(offset));
    chunk.set_crc32c(Crc32c(chunk.data()));
    chunk.set_file_size(static_cast<int64_t>(bytes.size()));
    chunk.set_file_sha256(sha256);
    if (before_chunk) {
      const grpc::Status status = before_chunk(chunk);
      if (!status.ok()) return status;
    }
    if (!writer->Write(chunk)) return grpc::Status::CANCELLED;
    bytes_sent += static_cast<int64_t>(chunk.data().size());
  }
  return grpc::Status::OK;
}

grpc::Status FakeCheckpointService::DeleteCheckpoint(grpc::ServerContext*,
                                                     const v1::DeleteCheckpointRequest* request,
                                                     google::protobuf::Empty*) {
  v1::Checkpoint checkpoint;
  const grpc::Status status = FindResource(checkpoints, request->name(), &checkpoint);
  if (status.ok()) checkpoints.erase(request->name());
  return status;
}

grpc::Status FakeCheckpointService::ImportCheckpoint(
    grpc::ServerContext*, const v1::ImportCheckpointRequest* request,
    grpc::ServerWriter<v1::ImportCheckpointResponse>* writer) {
  v1::ImportCheckpointResponse response;
  response.mutable_progress()->set_bytes_done(50);
  response.mutable_progress()->set_bytes_total(100);
  writer->Write(response);
  *response.mutable_checkpoint() =
      Add("jobs/" + request->job_id() + "/checkpoints/step-000000000", {});
  writer->Write(response);
  return grpc::Status::OK;
}

grpc::Status FakeActivationService::RegisterActivationSet(
    grpc::ServerContext*, const v1::RegisterActivationSetRequest* request,
    grpc::ServerWriter<v1::RegisterActivationSetResponse>* writer) {
  if (!register_error.ok()) return register_error;
  v1::RegisterActivationSetResponse response;
  for (const int64_t done : {0, 50, 100}) {
    response.mutable_progress()->set_bytes_done(done);
    response.mutable_progress()->set_bytes_total(100);
    writer->Write(response);
  }
  v1::ActivationSet& set = sets["activationSets/" + request->activation_set_id()];
  set.set_name("activationSets/" + request->activation_set_id());
  set.set_path(request->path());
  *response.mutable_activation_set() = set;
  writer->Write(response);
  return grpc::Status::OK;
}

grpc::Status FakeActivationService::GetActivationSet(grpc::ServerContext*,
                                                     const v1::GetActivationSetRequest* request,
                                                     v1::ActivationSet* set) {
  return FindResource(sets, request->name(), set);
}

grpc::Status FakeActivationService::ListActivationSets(grpc::ServerContext*,
                                                       const v1::ListActivationSetsRequest*,
                                                       v1::ListActivationSetsResponse* response) {
  for (const auto& [name, set] : sets) *response->add_activation_sets() = set;
  return grpc::Status::OK;
}

grpc::Status FakeActivationService::VerifyActivationSet(
    grpc::ServerContext*, const v1::VerifyActivationSetRequest* request,
    grpc::ServerWriter<v1::VerifyActivationSetResponse>* writer) {
  v1::ActivationSet set;
  const grpc::Status status = FindResource(sets, request->name(), &set);
  if (!status.ok()) return status;
  v1::VerifyActivationSetResponse response;
  response.mutable_progress()->set_bytes_done(100);
  response.mutable_progress()->set_bytes_total(100);
  writer->Write(response);
  *response.mutable_report() = report;
  writer->Write(response);
  return grpc::Status::OK;
}

grpc::Status FakeActivationService::QuarantineActivationSet(
    grpc::ServerContext*, const v1::QuarantineActivationSetRequest* request,
    v1::ActivationSet* set) {
  const grpc::Status status = FindResource(sets, request->name(), set);
  if (!status.ok()) return status;
  set->set_state(v1::ACTIVATION_SET_STATE_QUARANTINED);
  set->add_problems(request->reason());
  sets[request->name()] = *set;
  return grpc::Status::OK;
}

grpc::Status FakeActivationService::DeleteActivationSet(
    grpc::ServerContext*, const v1::DeleteActivationSetRequest* request, google::protobuf::Empty*) {
  v1::ActivationSet set;
  const grpc::Status status = FindResource(sets, request->name(), &set);
  if (status.ok()) sets.erase(request->name());
  return status;
}

grpc::Status FakeActivationService::UploadShard(grpc::ServerContext*,
                                                grpc::ServerReader<v1::UploadShardRequest>* reader,
                                                v1::UploadedFile* response) {
  v1::UploadShardRequest message;
  reader->Read(&message);
  const v1::UploadStart start = message.start();
  std::string& bytes = uploaded[start.file()];
  if (start.offset() != static_cast<int64_t>(bytes.size())) {
    return DetailedError(grpc::StatusCode::ABORTED, "another offset", "OFFSET_MISMATCH");
  }
  while (reader->Read(&message)) {
    const std::string& data = message.data().data();
    if (before_piece) {
      const grpc::Status status = before_piece(data);
      if (!status.ok()) return status;
    }
    if (Crc32c(data) != message.data().crc32c()) {
      return DetailedError(grpc::StatusCode::DATA_LOSS, "a damaged piece", "DATA_LOSS");
    }
    bytes += data;
    bytes_received += static_cast<int64_t>(data.size());
  }
  response->set_file(start.file());
  response->set_received_bytes(static_cast<int64_t>(bytes.size()));
  if (static_cast<int64_t>(bytes.size()) < start.size_bytes()) return grpc::Status::OK;
  if (Sha256Hex(bytes) != start.sha256()) {
    return DetailedError(grpc::StatusCode::ALREADY_EXISTS, "another file", "ALREADY_EXISTS");
  }
  complete.insert(start.file());
  response->set_complete(true);
  return grpc::Status::OK;
}

grpc::Status FakeActivationService::GetUpload(grpc::ServerContext*, const v1::GetUploadRequest*,
                                              v1::Upload* upload) {
  for (const auto& [name, bytes] : uploaded) {
    v1::UploadedFile& file = *upload->add_files();
    file.set_file(name);
    file.set_received_bytes(static_cast<int64_t>(bytes.size()));
    file.set_complete(complete.contains(name));
  }
  return grpc::Status::OK;
}

grpc::Status FakeServerInfoService::GetServerInfo(grpc::ServerContext*,
                                                  const v1::GetServerInfoRequest*,
                                                  v1::ServerInfo* response) {
  *response = info;
  return grpc::Status::OK;
}

void FakeServer::Start() {
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port_), grpc::InsecureServerCredentials(),
                           &port_);
  builder.RegisterService(&jobs);
  builder.RegisterService(&metrics);
  builder.RegisterService(&checkpoints);
  builder.RegisterService(&sets);
  builder.RegisterService(&info);
  server_ = builder.BuildAndStart();
}

void FakeServer::Stop() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

std::string FakeServer::address() const { return absl::StrCat("127.0.0.1:", port_); }

}  // namespace lorsa::client
