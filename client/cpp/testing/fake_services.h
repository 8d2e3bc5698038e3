// A lorsad of make-believe for tests: the services of lorsa.v1 in this process, on a real port,
// with contents and failures that a test chooses. Set the fields before the calls that use them.
#ifndef LORSA_CLIENT_CPP_TESTING_FAKE_SERVICES_H_
#define LORSA_CLIENT_CPP_TESTING_FAKE_SERVICES_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lorsa/v1/activation_service.grpc.pb.h"
#include "lorsa/v1/checkpoint_service.grpc.pb.h"
#include "lorsa/v1/job_service.grpc.pb.h"
#include "lorsa/v1/metric_service.grpc.pb.h"
#include "lorsa/v1/server_info_service.grpc.pb.h"

namespace lorsa::client {

// An error as lorsad sends it: ErrorInfo with `reason` and BadRequest with (field, description).
grpc::Status DetailedError(grpc::StatusCode code, const std::string& message,
                           const std::string& reason,
                           const std::vector<std::pair<std::string, std::string>>& violations = {});

v1::JobEvent MakeEvent(int64_t revision, v1::JobState from, v1::JobState to,
                       const std::string& message = "");

class FakeJobService final : public v1::JobService::Service {
 public:
  using Watch = std::function<grpc::Status(const v1::WatchJobRequest&,
                                           grpc::ServerWriter<v1::WatchJobResponse>&)>;

  std::map<std::string, v1::Job> jobs;      // by name
  std::map<std::string, v1::Sweep> sweeps;  // by name
  std::vector<v1::CreateJobRequest> created;
  std::vector<v1::CreateSweepRequest> created_sweeps;
  std::vector<v1::ForkJobRequest> forked;
  std::vector<v1::UpdateJobRequest> updated;
  std::vector<v1::DeleteJobRequest> deleted;
  grpc::Status create_error;
  Watch watch;  // default: NOT_FOUND or the job, and no event
  std::vector<v1::ReadLogsResponse> logs;
  std::deque<size_t> log_cuts;  // messages after which the next calls of ReadLogs break

  grpc::Status CreateJob(grpc::ServerContext*, const v1::CreateJobRequest*, v1::Job*) override;
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*, v1::Job*) override;
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*,
                        v1::ListJobsResponse*) override;
  grpc::Status PauseJob(grpc::ServerContext*, const v1::PauseJobRequest*, v1::Job*) override;
  grpc::Status ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest*, v1::Job*) override;
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest*, v1::Job*) override;
  grpc::Status ForkJob(grpc::ServerContext*, const v1::ForkJobRequest*, v1::Job*) override;
  grpc::Status UpdateJob(grpc::ServerContext*, const v1::UpdateJobRequest*, v1::Job*) override;
  grpc::Status RetryJob(grpc::ServerContext*, const v1::RetryJobRequest*, v1::Job*) override;
  grpc::Status DeleteJob(grpc::ServerContext*, const v1::DeleteJobRequest*,
                         google::protobuf::Empty*) override;
  grpc::Status CreateSweep(grpc::ServerContext*, const v1::CreateSweepRequest*,
                           v1::Sweep*) override;
  grpc::Status GetSweep(grpc::ServerContext*, const v1::GetSweepRequest*, v1::Sweep*) override;
  grpc::Status ListSweeps(grpc::ServerContext*, const v1::ListSweepsRequest*,
                          v1::ListSweepsResponse*) override;
  grpc::Status CancelSweep(grpc::ServerContext*, const v1::CancelSweepRequest*,
                           v1::Sweep*) override;
  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest*,
                        grpc::ServerWriter<v1::WatchJobResponse>*) override;
  grpc::Status ReadLogs(grpc::ServerContext*, const v1::ReadLogsRequest*,
                        grpc::ServerWriter<v1::ReadLogsResponse>*) override;

 private:
  grpc::Status Find(const std::string& name, v1::Job* job) const;
  grpc::Status Change(const std::string& name, v1::JobState state, v1::Job* job);
};

class FakeMetricService final : public v1::MetricService::Service {
 public:
  using Stream = std::function<grpc::Status(const v1::StreamMetricsRequest&,
                                            grpc::ServerWriter<v1::StreamMetricsResponse>&)>;

  std::vector<v1::MetricPoint> points;  // in order of sequence
  Stream stream;                        // default: the points that the request asks for

  grpc::Status StreamMetrics(grpc::ServerContext*, const v1::StreamMetricsRequest*,
                             grpc::ServerWriter<v1::StreamMetricsResponse>*) override;
  // Two points a page.
  grpc::Status QueryMetrics(grpc::ServerContext*, const v1::QueryMetricsRequest*,
                            v1::QueryMetricsResponse*) override;
};

class FakeCheckpointService final : public v1::CheckpointService::Service {
 public:
  std::map<std::string, v1::Checkpoint> checkpoints;  // by name, aliases such as …/best too
  std::map<std::string, std::string> files;           // contents by name
  size_t chunk_bytes = 1000;
  // May change a chunk before it is sent; an error ends the stream instead.
  std::function<grpc::Status(v1::FileChunk&)> before_chunk;
  std::atomic<int64_t> bytes_sent = 0;
  std::atomic<int> reads = 0;

  // A checkpoint with these contents, its sizes and sha256 computed.
  v1::Checkpoint& Add(const std::string& name, const std::map<std::string, std::string>& contents);

  grpc::Status ListCheckpoints(grpc::ServerContext*, const v1::ListCheckpointsRequest*,
                               v1::ListCheckpointsResponse*) override;
  grpc::Status GetCheckpoint(grpc::ServerContext*, const v1::GetCheckpointRequest*,
                             v1::Checkpoint*) override;
  grpc::Status ReadFile(grpc::ServerContext*, const v1::ReadFileRequest*,
                        grpc::ServerWriter<v1::FileChunk>*) override;
  grpc::Status DeleteCheckpoint(grpc::ServerContext*, const v1::DeleteCheckpointRequest*,
                                google::protobuf::Empty*) override;
  // Makes jobs/ID/checkpoints/step-000000000 of that id, without files.
  grpc::Status ImportCheckpoint(grpc::ServerContext*, const v1::ImportCheckpointRequest*,
                                grpc::ServerWriter<v1::ImportCheckpointResponse>*) override;
};

class FakeActivationService final : public v1::ActivationService::Service {
 public:
  std::map<std::string, v1::ActivationSet> sets;  // by name
  v1::VerificationReport report;
  grpc::Status register_error;
  std::map<std::string, std::string> uploaded;  // bytes received of each file
  std::set<std::string> complete;               // files received whole
  // Called with each piece's bytes before they are kept; an error breaks the call.
  std::function<grpc::Status(const std::string&)> before_piece;
  std::atomic<int64_t> bytes_received = 0;

  grpc::Status RegisterActivationSet(
      grpc::ServerContext*, const v1::RegisterActivationSetRequest*,
      grpc::ServerWriter<v1::RegisterActivationSetResponse>*) override;
  grpc::Status GetActivationSet(grpc::ServerContext*, const v1::GetActivationSetRequest*,
                                v1::ActivationSet*) override;
  grpc::Status ListActivationSets(grpc::ServerContext*, const v1::ListActivationSetsRequest*,
                                  v1::ListActivationSetsResponse*) override;
  grpc::Status VerifyActivationSet(grpc::ServerContext*, const v1::VerifyActivationSetRequest*,
                                   grpc::ServerWriter<v1::VerifyActivationSetResponse>*) override;
  grpc::Status QuarantineActivationSet(grpc::ServerContext*,
                                       const v1::QuarantineActivationSetRequest*,
                                       v1::ActivationSet*) override;
  grpc::Status DeleteActivationSet(grpc::ServerContext*, const v1::DeleteActivationSetRequest*,
                                   google::protobuf::Empty*) override;
  grpc::Status UploadShard(grpc::ServerContext*, grpc::ServerReader<v1::UploadShardRequest>*,
                           v1::UploadedFile*) override;
  grpc::Status GetUpload(grpc::ServerContext*, const v1::GetUploadRequest*, v1::Upload*) override;
};

class FakeServerInfoService final : public v1::ServerInfoService::Service {
 public:
  v1::ServerInfo info;
  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*,
                             v1::ServerInfo*) override;
};

// Starts when constructed. Restart keeps the port.
class FakeServer {
 public:
  FakeServer() { Start(); }
  ~FakeServer() { Stop(); }

  void Start();
  void Stop();  // breaks every call under way
  std::string address() const;

  FakeJobService jobs;
  FakeMetricService metrics;
  FakeCheckpointService checkpoints;
  FakeActivationService sets;
  FakeServerInfoService info;

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace lorsa::client

#endif  // LORSA_CLIENT_CPP_TESTING_FAKE_SERVICES_H_
