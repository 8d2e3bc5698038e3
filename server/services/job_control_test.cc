// Fork, retry, delete, labels, limits and repeated requests, over the real RPC with scripted
// workers.
#include <random>
#include <set>
#include <thread>

#include "server/model/job_state.h"
#include "server/services/job_services_test_fixture.h"

namespace lorsa::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class JobControlTest : public JobServicesTest {
 protected:
  // One call of a method that answers with a job.
  template <typename Request>
  grpc::Status Call(grpc::Status (v1::JobService::Stub::*method)(grpc::ClientContext*,
                                                                 const Request&, v1::Job*),
                    const Request& request, v1::Job* job = nullptr) {
    grpc::ClientContext context;
    v1::Job ignored;
    return ((*jobs_).*method)(&context, request, job == nullptr ? &ignored : job);
  }
  template <typename Request>
  grpc::Status CallByName(grpc::Status (v1::JobService::Stub::*method)(grpc::ClientContext*,
                                                                       const Request&, v1::Job*),
                          const std::string& id, v1::Job* job = nullptr) {
    Request request;
    request.set_name("jobs/" + id);
    return Call(method, request, job);
  }
  grpc::Status Delete(const std::string& id, bool force = false) {
    grpc::ClientContext context;
    v1::DeleteJobRequest request;
    request.set_name("jobs/" + id);
    request.set_force(force);
    google::protobuf::Empty response;
    return jobs_->DeleteJob(&context, request, &response);
  }
  std::vector<std::string> List(const v1::ListJobsRequest& request) {
    v1::ListJobsResponse page;
    EXPECT_TRUE(ListJobs(request, page).ok());
    std::vector<std::string> names;
    for (const v1::Job& job : page.jobs()) names.push_back(job.name());
    return names;
  }
  static std::vector<std::string> FieldsIn(const grpc::Status& status) {
    const auto bad_request = DetailOf<google::rpc::BadRequest>(status);
    std::vector<std::string> fields;
    for (const auto& v : bad_request.field_violations()) fields.push_back(v.field());
    return fields;
  }
  // Runs the job to a checkpoint of step 10 (20,480 tokens) and to its end.
  void FinishWithCheckpoint(const std::string& id) {
    auto client = RunJob(id);
    FakeWorker worker = Launched();
    v1::CheckpointStaged staged = Stage(worker, 10, "weights", 0.5);
    staged.set_tokens(20'480);
    v1::WorkerMessage message;
    *message.mutable_checkpoint() = staged;
    client->Say(message);
    EXPECT_EQ(client->Hear().checkpoint_published().error(), "");
    client->Say(OutcomeMessage(v1::WorkerOutcome::KIND_SUCCEEDED));
    EXPECT_TRUE(client->Hear().has_outcome_recorded());
    launcher_.EndLast();
  }
  static v1::ForkJobRequest ForkRequest(const std::string& checkpoint, const std::string& id) {
    v1::ForkJobRequest request;
    request.set_checkpoint("jobs/" + checkpoint);
    request.set_job_id(id);
    request.set_request_id("fork");
    request.mutable_changes()->set_tokens(1'024'000);
    return request;
  }
};

TEST_F(JobControlTest, ForkGoesOnFromTheCheckpointWithWhatWasChanged) {
  FinishWithCheckpoint("source");
  v1::Job fork;
  const v1::ForkJobRequest request = ForkRequest("source/checkpoints/best", "fork");
  ASSERT_TRUE(Call(&v1::JobService::Stub::ForkJob, request, &fork).ok());
  EXPECT_EQ(fork.forked_from(), "jobs/source/checkpoints/step-000000010");
  EXPECT_EQ(fork.latest_checkpoint(), "jobs/fork/checkpoints/step-000000010");
  EXPECT_EQ(fork.resolved_spec().training().tokens(), 1'024'000);
  EXPECT_EQ(fork.resolved_spec().training().top_k(), 64);
  EXPECT_EQ(fork.state(), v1::JOB_STATE_QUEUED);
}

TEST_F(JobControlTest, ForkThatChangesWhatTheCheckpointFixesIsRefusedByField) {
  FinishWithCheckpoint("source");
  v1::ForkJobRequest request = ForkRequest("source/checkpoints/latest", "fork");
  request.mutable_changes()->set_n_ov_heads(512);
  request.mutable_changes()->set_seed(7);
  request.mutable_changes()->set_tokens(20'480);
  request.mutable_policy()->set_priority(5000);
  const grpc::Status status = Call(&v1::JobService::Stub::ForkJob, request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(FieldsIn(status),
              ::testing::IsSupersetOf({"changes.n_ov_heads", "changes.seed", "policy.priority"}));
  EXPECT_TRUE(absl::IsNotFound(catalog_->GetJob("fork").status()));
}

TEST_F(JobControlTest, NothingGoesOnWithASetThatHasOtherContents) {
  FinishWithCheckpoint("source");
  v1::Job failed;
  ASSERT_TRUE(CreateJob(CreateRequest("failed"), failed).ok());
  ASSERT_TRUE(catalog_
                  ->UpdateJob("failed", now_,
                              [](const JobRecord&) -> absl::StatusOr<JobChange> {
                                return JobChange{.state = v1::JOB_STATE_FAILED};
                              })
                  .ok());
  v1::ActivationSet set = catalog_->GetActivationSet("smollm2").value();
  EXPECT_EQ(failed.resolved_spec().training().activation_set_sha256(), set.manifest_sha256());
  ASSERT_TRUE(catalog_->DeleteActivationSet("smollm2").ok());
  set.set_manifest_sha256("other");
  ASSERT_TRUE(catalog_->CreateActivationSet(set).ok());
  const auto request = ForkRequest("source/checkpoints/best", "fork");
  for (const grpc::Status& status : {Call(&v1::JobService::Stub::ForkJob, request),
                                     CallByName(&v1::JobService::Stub::RetryJob, "failed")}) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(ReasonIn(status), "SET_CHANGED");
    EXPECT_THAT(status.error_message(), HasSubstr("smollm2 has other contents"));
  }
}

TEST_F(JobControlTest, ForkNeedsACheckpoint) {
  v1::ForkJobRequest request = ForkRequest("gone/checkpoints/best", "fork");
  EXPECT_EQ(Call(&v1::JobService::Stub::ForkJob, request).error_code(),
            grpc::StatusCode::NOT_FOUND);
  request.set_checkpoint("source");
  const grpc::Status status = Call(&v1::JobService::Stub::ForkJob, request);
  EXPECT_THAT(FieldsIn(status), ElementsAre("checkpoint"));
}

TEST_F(JobControlTest, RepeatedForkIsTheSameJobEvenWhenItsSourceIsGone) {
  FinishWithCheckpoint("source");
  v1::Job first, second;
  const v1::ForkJobRequest request = ForkRequest("source/checkpoints/best", "fork");
  ASSERT_TRUE(Call(&v1::JobService::Stub::ForkJob, request, &first).ok());
  ASSERT_TRUE(Delete("source").ok());
  ASSERT_TRUE(Call(&v1::JobService::Stub::ForkJob, request, &second).ok());
  EXPECT_EQ(first.create_time().nanos(), second.create_time().nanos());
  v1::ForkJobRequest other = request;
  other.mutable_changes()->set_tokens(2'000'000);
  EXPECT_FALSE(Call(&v1::JobService::Stub::ForkJob, other).ok());
}

TEST_F(JobControlTest, ValidateOnlyForkMakesNothing) {
  FinishWithCheckpoint("source");
  v1::ForkJobRequest request = ForkRequest("source/checkpoints/best", "fork");
  request.set_validate_only(true);
  v1::Job job;
  ASSERT_TRUE(Call(&v1::JobService::Stub::ForkJob, request, &job).ok());
  EXPECT_EQ(job.resolved_spec().training().tokens(), 1'024'000);
  EXPECT_EQ(job.state(), v1::JOB_STATE_UNSPECIFIED);
  EXPECT_FALSE(fs_.Exists(Layout().JobFolder("fork")).value());
}

TEST_F(JobControlTest, DeletedJobEndsItsStreamsAndIsNotFound) {
  FinishWithCheckpoint("demo");
  ASSERT_TRUE(Delete("demo").ok());
  EXPECT_EQ(CallByName(&v1::JobService::Stub::GetJob, "demo").error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Delete("demo").error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(JobControlTest, RunningJobIsNotDeleted) {
  auto worker = RunJob("demo");
  const grpc::Status status = Delete("demo");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonIn(status), "WRONG_JOB_STATE");
}

TEST_F(JobControlTest, WatchGoesOnThroughTheFailureBeforeARetry) {
  auto worker = RunJob("demo");
  worker->Say(OutcomeMessage(v1::WorkerOutcome::KIND_FAILED));
  EXPECT_TRUE(worker->Hear().has_outcome_recorded());
  ASSERT_TRUE(CallByName(&v1::JobService::Stub::RetryJob, "demo").ok());
  grpc::ClientContext context;
  v1::WatchJobRequest request;
  request.set_name("jobs/demo");
  const auto watch = jobs_->WatchJob(&context, request);
  std::vector<std::string> reasons;
  v1::WatchJobResponse message;
  while (reasons.empty() || reasons.back() != "RETRIED") {
    ASSERT_TRUE(watch->Read(&message));
    if (message.has_event()) reasons.push_back(message.event().reason());
  }
  ASSERT_TRUE(CallByName(&v1::JobService::Stub::CancelJob, "demo").ok());
  ASSERT_TRUE(watch->Read(&message));
  EXPECT_EQ(message.event().to_state(), v1::JOB_STATE_CANCELLED);
  EXPECT_FALSE(watch->Read(&message));
  EXPECT_TRUE(watch->Finish().ok());
}

TEST_F(JobControlTest, JobsAreFoundByAllOfTheLabelsGiven) {
  for (const auto& [id, team, layer] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"a", "interp", "12"}, {"b", "interp", "6"}, {"c", "", "12"}}) {
    v1::CreateJobRequest request = CreateRequest(id);
    auto& labels = *request.mutable_policy()->mutable_labels();
    labels["team"] = team;
    labels["layer"] = layer;
    v1::Job job;
    ASSERT_TRUE(CreateJob(request, job).ok());
    EXPECT_EQ(job.policy().labels().at("layer"), layer);
  }
  v1::ListJobsRequest request;
  (*request.mutable_labels())["layer"] = "12";
  EXPECT_THAT(List(request), ElementsAre("jobs/c", "jobs/a"));
  (*request.mutable_labels())["team"] = "interp";
  EXPECT_THAT(List(request), ElementsAre("jobs/a"));
  (*request.mutable_labels())["x"] = "y";
  EXPECT_THAT(List(request), IsEmpty());
}

TEST_F(JobControlTest, JobLargerThanTheMachineIsRefusedAtOnce) {
  v1::CreateJobRequest request = CreateRequest("demo");
  request.mutable_spec()->mutable_training()->set_threads(9);
  v1::Job job;
  grpc::Status status = CreateJob(request, job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("9 CPU slots"));
  request.mutable_spec()->mutable_training()->set_threads(8);
  training_->memory_bytes = int64_t{65} << 30;
  status = CreateJob(request, job);
  EXPECT_THAT(status.error_message(), HasSubstr("65.00 GiB"));
  training_->memory_bytes = int64_t{64} << 30;
  ASSERT_TRUE(CreateJob(request, job).ok());
  EXPECT_EQ(job.cpu_slots(), 8);
  EXPECT_EQ(job.memory_bytes(), training_->memory_bytes);
}

TEST_F(JobControlTest, QueuedJobSaysWhatItWaitsFor) {
  auto worker = RunJob("running");
  v1::Job job;
  ASSERT_TRUE(CreateJob(CreateRequest("first"), job).ok());
  ASSERT_TRUE(CreateJob(CreateRequest("second"), job).ok());
  Poll();
  ASSERT_TRUE(CallByName(&v1::JobService::Stub::GetJob, "first", &job).ok());
  EXPECT_EQ(job.waiting_for(), "MAX_RUNNING_JOBS");
  EXPECT_THAT(job.waiting_message(), HasSubstr("1 of 1 jobs run"));
  ASSERT_TRUE(CallByName(&v1::JobService::Stub::GetJob, "second", &job).ok());
  EXPECT_EQ(job.waiting_for(), "EARLIER_JOBS");
}

// The response is lost: the client has given up, or the connection broke, before it came.
TEST_F(JobControlTest, RequestRepeatedAfterALostResponseMakesOneJob) {
  v1::CreateJobRequest request = CreateRequest("demo");
  request.set_request_id("r1");
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    v1::Job lost;
    grpc::Status status;
    const auto call = jobs_->AsyncCreateJob(&context, request, &queue);
    call->Finish(&lost, &status, nullptr);
    context.TryCancel();
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
  }
  v1::Job job;
  ASSERT_TRUE(CreateJob(request, job).ok());
  EXPECT_EQ(job.revision(), 1);
  EXPECT_THAT(List({}), ElementsAre("jobs/demo"));
  // Also once the job has gone on.
  ASSERT_TRUE(CallByName(&v1::JobService::Stub::CancelJob, "demo").ok());
  ASSERT_TRUE(CreateJob(request, job).ok());
  EXPECT_EQ(job.state(), v1::JOB_STATE_CANCELLED);
}

// What each side was told must fit what is stored, whichever came first.
TEST_F(JobControlTest, CancelRacingCompletionEndsConsistently) {
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 1000; ++round) {
    const std::string id = absl::StrCat("job-", round);
    auto worker = RunJob(id);
    const auto cancel_delay = absl::Microseconds(random() % 600);
    const auto end_delay = absl::Microseconds(random() % 600);
    grpc::Status cancelled;
    std::thread client([&] {
      absl::SleepFor(cancel_delay);
      cancelled = CallByName(&v1::JobService::Stub::CancelJob, id);
      Poll();  // Tells the worker.
    });
    absl::SleepFor(end_delay);
    worker->Say(OutcomeMessage(round % 2 == 0 ? v1::WorkerOutcome::KIND_SUCCEEDED
                                              : v1::WorkerOutcome::KIND_FAILED));
    v1::ServerMessage heard;
    while ((heard = worker->Hear()).has_command()) EXPECT_EQ(heard.command(), v1::COMMAND_CANCEL);
    EXPECT_TRUE(heard.has_outcome_recorded());
    client.join();
    EXPECT_TRUE(worker->Finish().ok());

    const v1::Job job = Get(id);
    const auto events = catalog_->ListEvents(id, 0, 100).value();
    const bool was_cancelled = std::any_of(events.begin(), events.end(), [](const v1::JobEvent& e) {
      return e.reason() == "CANCEL_REQUESTED";
    });
    EXPECT_EQ(was_cancelled, cancelled.ok()) << cancelled.error_message();
    if (!cancelled.ok()) {
      ++refused;
      EXPECT_EQ(cancelled.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    }
    EXPECT_EQ(job.state(), round % 2 == 0 ? v1::JOB_STATE_SUCCEEDED : v1::JOB_STATE_FAILED);
    EXPECT_EQ(events.back().to_state(), job.state());
    EXPECT_EQ(events.back().revision(), job.revision());
    for (size_t i = 0; i < events.size(); ++i) {
      EXPECT_EQ(events[i].revision(), static_cast<int64_t>(i) + 1);
      if (i > 0) {
        EXPECT_EQ(events[i].from_state(), events[i - 1].to_state());
      }
      EXPECT_EQ(IsFinal(events[i].to_state()), i + 1 == events.size());
    }
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GT(refused, 0) << "no completion came first";
  EXPECT_LT(refused, 1000) << "no cancellation came first";
}

class UpdateJobTest : public JobServicesTest {
 protected:
  grpc::Status Update(const std::string& request) {
    v1::UpdateJobRequest parsed;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(request, &parsed)) << request;
    grpc::ClientContext context;
    return jobs_->UpdateJob(&context, parsed, &job_);
  }
  std::vector<std::string> Queued(const std::string& label) {
    v1::ListJobsRequest request;
    (*request.mutable_labels())["team"] = label;
    v1::ListJobsResponse page;
    EXPECT_TRUE(ListJobs(request, page).ok());
    std::vector<std::string> names;
    for (const v1::Job& job : page.jobs()) names.push_back(job.name());
    return names;
  }

  v1::Job job_;
};

TEST_F(UpdateJobTest, ChangesTheFieldsOfTheMaskAlone) {
  v1::CreateJobRequest request = CreateRequest("demo");
  request.mutable_policy()->set_priority(3);
  request.mutable_policy()->mutable_ttl()->set_seconds(60);
  (*request.mutable_policy()->mutable_labels())["team"] = "a";
  (*request.mutable_policy()->mutable_labels())["layer"] = "12";
  ASSERT_TRUE(CreateJob(request, job_).ok());
  const grpc::Status status = Update(R"pb(
    job {
      name: "jobs/demo"
      policy {
        priority: 9
        labels { key: "team" value: "b" }
      }
    }
    update_mask { paths: "policy.labels" paths: "policy.ttl" })pb");
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(job_.policy().priority(), 3) << "not named";
  EXPECT_EQ(job_.policy().labels().size(), 1) << "replaced";
  EXPECT_FALSE(job_.policy().has_ttl()) << "named and not set";
  EXPECT_EQ(job_.policy().DebugString(), Get("demo").policy().DebugString());
  EXPECT_THAT(Queued("a"), ::testing::IsEmpty());
  EXPECT_THAT(Queued("b"), ::testing::ElementsAre("jobs/demo"));
  EXPECT_EQ(EventReasons("demo").back(), "UPDATED");
}

TEST_F(UpdateJobTest, AHigherPriorityStartsFirst) {
  for (const char* id : {"first", "second"}) {
    ASSERT_TRUE(CreateJob(CreateRequest(id), job_).ok());
  }
  ASSERT_TRUE(Update("job { name: 'jobs/second' policy { priority: 1 } }"
                     "update_mask { paths: 'policy.priority' }")
                  .ok());
  Poll();
  EXPECT_EQ(State("second"), v1::JOB_STATE_STARTING);
  EXPECT_EQ(State("first"), v1::JOB_STATE_QUEUED);
}

TEST_F(UpdateJobTest, ATtlCountsFromTheEndOfTheJob) {
  auto worker = RunJob("demo");
  ASSERT_TRUE(worker->Say(OutcomeMessage(v1::WorkerOutcome::KIND_SUCCEEDED)));
  worker->Finish();
  const int64_t end = Get("demo").end_time().seconds();
  Advance(absl::Seconds(30));
  const std::string mask = "update_mask { paths: 'policy.ttl' }";
  ASSERT_TRUE(Update("job { name: 'jobs/demo' policy { ttl { seconds: 90 } } }" + mask).ok());
  EXPECT_EQ(job_.expire_time().seconds(), end + 90);
  ASSERT_TRUE(Update("job { name: 'jobs/demo' }" + mask).ok());
  EXPECT_FALSE(job_.has_expire_time());
}

TEST_F(UpdateJobTest, ADeadlineThatIsSetEndsTheJob) {
  ASSERT_TRUE(CreateJob(CreateRequest("demo"), job_).ok());
  const std::string at = absl::StrCat("deadline { seconds: ", absl::ToUnixSeconds(now_) + 5, " }");
  ASSERT_TRUE(Update("job { name: 'jobs/demo' policy { " + at +
                     " } } update_mask { paths: 'policy.deadline' }")
                  .ok());
  Advance(absl::Seconds(6));
  Poll();
  EXPECT_EQ(Get("demo").reason(), "DEADLINE");
}

TEST_F(UpdateJobTest, WhatCannotBeChangedIsRefusedByField) {
  ASSERT_TRUE(CreateJob(CreateRequest("demo"), job_).ok());
  const auto refused = [&](const std::string& request, const std::string& field) {
    const grpc::Status status = Update("job { name: 'jobs/demo' " + request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << request;
    EXPECT_EQ(DetailOf<google::rpc::BadRequest>(status).field_violations(0).field(), field);
  };
  refused("}", "update_mask");
  refused("} update_mask { paths: 'spec' }", "update_mask");
  refused("} update_mask { paths: 'policy' }", "update_mask");
  refused("} update_mask { paths: 'policy.size' }", "update_mask");
  refused("policy { priority: 1001 } } update_mask { paths: 'policy.priority' }",
          "job.policy.priority");
  EXPECT_EQ(Get("demo").revision(), 1);
  EXPECT_EQ(Update("job { name: 'jobs/none' } update_mask { paths: 'policy.ttl' }").error_code(),
            grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace lorsa::server
