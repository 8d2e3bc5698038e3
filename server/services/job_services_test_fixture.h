// For tests: the services about jobs on a real gRPC server, with scripted worker processes.
#ifndef LORSA_SERVER_SERVICES_JOB_SERVICES_TEST_FIXTURE_H_
#define LORSA_SERVER_SERVICES_JOB_SERVICES_TEST_FIXTURE_H_

#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "lorsa/v1/job_service.grpc.pb.h"
#include "lorsa/v1/metric_service.grpc.pb.h"
#include "lorsa/v1/worker_service.grpc.pb.h"
#include "server/jobs/jobs_test_fixture.h"
#include "server/kinds/training_kind.h"
#include "server/rpc/call_lanes.h"
#include "server/services/job_service.h"
#include "server/services/metric_service.h"
#include "server/services/worker_service.h"

namespace lorsa::server {

// A worker's end of a session, message by message.
class WorkerClient {
 public:
  WorkerClient(const std::shared_ptr<grpc::Channel>& channel, const std::string& token)
      : stub_(v1::WorkerService::NewStub(channel)) {
    if (!token.empty()) context_.AddMetadata("authorization", "Bearer " + token);
    stream_ = stub_->Session(&context_);
  }
  ~WorkerClient() {
    if (!finished_) Finish();
  }

  bool Say(const v1::WorkerMessage& message) { return stream_->Write(message); }
  bool SayHello() {
    v1::WorkerMessage message;
    message.mutable_hello()->set_protocol(kWorkerProtocol);
    return Say(message);
  }
  // The next message; one without an item if the stream has ended.
  v1::ServerMessage Hear() {
    v1::ServerMessage message;
    if (!stream_->Read(&message)) message.Clear();
    return message;
  }
  grpc::Status Finish() {
    finished_ = true;
    stream_->WritesDone();
    while (Hear().item_case() != v1::ServerMessage::ITEM_NOT_SET) {
    }
    return stream_->Finish();
  }

 private:
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::ServerMessage>> stream_;
  bool finished_ = false;
};

// Plans training jobs; what they take can be overridden.
class MeasuredTrainingKind final : public TrainingKind {
 public:
  using TrainingKind::TrainingKind;

  absl::StatusOr<v1::JobEstimate> EstimateResources(const v1::JobSpec& resolved) const override {
    auto estimate = TrainingKind::EstimateResources(resolved);
    if (memory_bytes > 0 && estimate.ok()) estimate->set_memory_bytes(memory_bytes);
    return estimate;
  }
  absl::StatusOr<std::optional<absl::Duration>> EstimateTime(
      const v1::JobSpec& resolved) const override {
    ++time_estimates;
    return TrainingKind::EstimateTime(resolved);
  }

  int64_t memory_bytes = 0;                     // 0 = as estimated
  mutable std::atomic<int> time_estimates = 0;  // that were made
};

class JobServicesTest : public JobsTest {
 protected:
  explicit JobServicesTest(int max_running_jobs = 1)
      : JobsTest(max_running_jobs),
        calls_{manager_->sessions(), streams_, answers_, records_},
        job_service_({.calls = calls_,
                      .lanes = threads_.lanes(),
                      .jobs = *manager_,
                      .catalog = *catalog_,
                      .fs = fs_,
                      .watchers = hub_,
                      .layout = Layout(),
                      .planning = {.kinds = kinds_,
                                   .capacity = {.cpu_slots = 8, .memory_bytes = int64_t{64} << 30},
                                   .now = [this] { return now_; }}}),
        metric_service_(calls_, threads_.lanes().reads, *catalog_, hub_),
        staged_uploads_(*catalog_, kinds_, fs_, Layout(), /*disk_reserve_bytes=*/0),
        worker_service_({.calls = calls_,
                         .lanes = threads_.lanes(),
                         .sessions = manager_->sessions(),
                         .uploads = staged_uploads_,
                         .fs = fs_,
                         .layout = Layout()}) {
    auto training = std::make_unique<MeasuredTrainingKind>(*catalog_, fs_, Layout(),
                                                           TrainingMachine{.cores = 2});
    training_ = training.get();
    kinds_.Add(kTrainingKind, std::move(training));
    v1::ActivationSet set;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"pb(
          name: "activationSets/smollm2"
          manifest_sha256: "of the manifest"
          d_model: 576
          context: 256
          element_type: ELEMENT_TYPE_BF16
          mean_input_norm: 20
          mean_output_norm: 2
          sequences: 1562
          held_out_sequences: 128
          has_attention_weights: true
          attention { n_heads: 9 n_kv_heads: 3 d_head: 64 attn_scale: 8 })pb",
        &set));
    EXPECT_TRUE(catalog_->CreateActivationSet(set).ok());
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    for (grpc::Service* service :
         std::initializer_list<grpc::Service*>{&job_service_, &metric_service_, &worker_service_}) {
      builder.RegisterService(service);
    }
    server_ = builder.BuildAndStart();
    channel_ =
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
    jobs_ = v1::JobService::NewStub(channel_);
    metrics_ = v1::MetricService::NewStub(channel_);
  }
  ~JobServicesTest() override { server_->Shutdown(std::chrono::system_clock::now()); }

  static v1::CreateJobRequest CreateRequest(const std::string& id) {
    v1::CreateJobRequest request;
    request.set_job_id(id);
    request.mutable_spec()->mutable_training()->set_activation_set("smollm2");
    request.mutable_spec()->mutable_training()->set_top_k(64);
    return request;
  }
  grpc::Status CreateJob(const v1::CreateJobRequest& request, v1::Job& job) {
    grpc::ClientContext context;
    return jobs_->CreateJob(&context, request, &job);
  }
  grpc::Status ListJobs(const v1::ListJobsRequest& request, v1::ListJobsResponse& page) {
    grpc::ClientContext context;
    return jobs_->ListJobs(&context, request, &page);
  }
  // Creates a job, launches it and welcomes its worker.
  std::unique_ptr<WorkerClient> RunJob(const std::string& id) {
    v1::Job job;
    EXPECT_TRUE(CreateJob(CreateRequest(id), job).ok());
    Poll();
    auto worker = std::make_unique<WorkerClient>(channel_, Launched().bootstrap.token());
    EXPECT_TRUE(worker->SayHello());
    EXPECT_TRUE(worker->Hear().has_welcome());
    return worker;
  }
  static v1::WorkerMessage MetricsMessage(int64_t number, int64_t step) {
    v1::WorkerMessage message;
    message.mutable_metrics()->set_number(number);
    v1::MetricPoint& point = *message.mutable_metrics()->add_points();
    point.set_kind(v1::METRIC_KIND_TRAINING);
    point.set_step(step);
    (*point.mutable_values())["loss"] = 0.5;
    return message;
  }
  static v1::WorkerMessage OutcomeMessage(v1::WorkerOutcome::Kind kind) {
    v1::WorkerMessage message;
    message.mutable_outcome()->set_kind(kind);
    return message;
  }
  // The detail of that type; fails if there is none.
  template <typename Detail>
  static Detail DetailOf(const grpc::Status& status) {
    google::rpc::Status details;
    EXPECT_TRUE(details.ParseFromString(status.error_details()));
    for (const auto& any : details.details()) {
      Detail detail;
      if (any.UnpackTo(&detail)) return detail;
    }
    ADD_FAILURE() << "no " << Detail::descriptor()->full_name();
    return {};
  }
  static std::string ReasonIn(const grpc::Status& status) {
    return DetailOf<google::rpc::ErrorInfo>(status).reason();
  }

  MeasuredTrainingKind* training_ = nullptr;  // in kinds_
  OpenStreams streams_{"streams", {}};
  OpenStreams answers_{"answers", {}};
  CallRecords records_;
  const CallEnvironment calls_;
  LaneThreads threads_;
  JobService job_service_;
  MetricService metric_service_;
  StagedUploads staged_uploads_;
  WorkerService worker_service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::MetricService::Stub> metrics_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_JOB_SERVICES_TEST_FIXTURE_H_
