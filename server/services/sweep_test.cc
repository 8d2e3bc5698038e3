// Sweeps over the real RPC, with scripted workers.
#include <google/protobuf/text_format.h>

#include "server/services/job_services_test_fixture.h"

namespace lorsa::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class SweepServiceTest : public JobServicesTest {
 protected:
  static v1::CreateSweepRequest Request(const std::string& id, const std::string& more = "") {
    v1::CreateSweepRequest request;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("sweep_id: '", id, "' spec { activation_set: 'smollm2' }",
                     "parameters { field: 'top_k' values: '32' values: '64' }",
                     "parameters { field: 'seed' values: '1' values: '2' } request_id: 'r' ", more),
        &request));
    return request;
  }
  template <typename Request, typename Response>
  grpc::Status Call(grpc::Status (v1::JobService::Stub::*method)(grpc::ClientContext*,
                                                                 const Request&, Response*),
                    const Request& request, Response& response) {
    grpc::ClientContext context;
    return ((*jobs_).*method)(&context, request, &response);
  }
  grpc::Status Create(const v1::CreateSweepRequest& request) {
    return Call(&v1::JobService::Stub::CreateSweep, request, sweep_);
  }
  v1::Sweep GetSweep(const std::string& id) {
    v1::GetSweepRequest request;
    request.set_name("sweeps/" + id);
    EXPECT_TRUE(Call(&v1::JobService::Stub::GetSweep, request, sweep_).ok());
    return sweep_;
  }
  std::vector<std::string> JobsOf(const std::string& id) {
    v1::ListJobsRequest request;
    request.set_sweep("sweeps/" + id);
    v1::ListJobsResponse page;
    EXPECT_TRUE(Call(&v1::JobService::Stub::ListJobs, request, page).ok());
    std::vector<std::string> names;
    for (const v1::Job& job : page.jobs()) names.push_back(job.name());
    return names;
  }

  v1::Sweep sweep_;
};

TEST_F(SweepServiceTest, MakesAJobForEachCombination) {
  ASSERT_TRUE(Create(Request("grid", "policy { priority: 3 }")).ok());
  EXPECT_EQ(sweep_.name(), "sweeps/grid");
  EXPECT_EQ(sweep_.jobs(), 4);
  EXPECT_THAT(sweep_.jobs_by_state(), UnorderedElementsAre(Pair("QUEUED", 4)));
  v1::Job other;
  ASSERT_TRUE(CreateJob(CreateRequest("grid-other"), other).ok());
  EXPECT_THAT(JobsOf("grid"),
              ElementsAre("jobs/grid-003", "jobs/grid-002", "jobs/grid-001", "jobs/grid-000"));
  const v1::Job job = Get("grid-001");
  EXPECT_EQ(job.spec().training().top_k(), 32);
  EXPECT_EQ(job.spec().training().seed(), 2);
  EXPECT_EQ(job.sweep(), "sweeps/grid");
  EXPECT_EQ(job.policy().priority(), 3);
}

TEST_F(SweepServiceTest, AllJobsOrNone) {
  v1::Job taken;
  ASSERT_TRUE(CreateJob(CreateRequest("grid-002"), taken).ok());
  const grpc::Status status = Create(Request("grid"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_THAT(status.error_message(), HasSubstr("grid-002"));
  EXPECT_TRUE(absl::IsNotFound(catalog_->GetJob("grid-000").status()));
  EXPECT_TRUE(absl::IsNotFound(catalog_->GetSweep("grid").status()));
}

// One request of 4 MiB became 2 GB of memory and disk: each job had a copy of the unknown field.
TEST_F(SweepServiceTest, RefusesUnknownFieldsAtAnyDepth) {
  const auto add_unknown = [](google::protobuf::Message& message) {
    *message.GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(9999) =
        std::string(1 << 20, 'x');
  };
  v1::CreateSweepRequest spec = Request("grid"), parameter = spec, policy = spec;
  add_unknown(*spec.mutable_spec()->mutable_qk_norm());
  add_unknown(*parameter.mutable_parameters(1));
  add_unknown(*policy.mutable_policy()->mutable_deadline());
  for (const auto& [request, field] : {std::pair(spec, "spec.qk_norm"),
                                       {parameter, "parameters[1]"},
                                       {policy, "policy.deadline"}}) {
    const grpc::Status status = Create(request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << field;
    EXPECT_THAT(status.error_message(), HasSubstr("does not know"));
    EXPECT_EQ(DetailOf<google::rpc::BadRequest>(status).field_violations(0).field(), field);
  }
  EXPECT_TRUE(absl::IsNotFound(catalog_->GetSweep("grid").status()));
}

TEST_F(SweepServiceTest, CombinationThatIsImpossibleIsNamed) {
  v1::CreateSweepRequest request = Request("grid");
  request.mutable_parameters(0)->set_values(1, "1000000");
  const grpc::Status status = Create(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("with top_k: 1000000, seed: 1"));
  EXPECT_EQ(DetailOf<google::rpc::BadRequest>(status).field_violations(0).field(), "spec.top_k");
  request.mutable_parameters(0)->set_values(1, "x");
  EXPECT_THAT(Create(request).error_message(), HasSubstr("parameters[0].values[1]"));
}

TEST_F(SweepServiceTest, RepeatedRequestMakesOneSweepAndAnotherIsRefused) {
  ASSERT_TRUE(Create(Request("grid")).ok());
  const v1::Sweep first = sweep_;
  ASSERT_TRUE(Create(Request("grid")).ok());
  EXPECT_EQ(sweep_.create_time().nanos(), first.create_time().nanos());
  EXPECT_EQ(sweep_.jobs(), 4);
  EXPECT_EQ(Create(Request("grid", "policy { priority: 3 }")).error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(SweepServiceTest, ValidateOnlyMakesNothing) {
  ASSERT_TRUE(Create(Request("grid", "validate_only: true")).ok());
  EXPECT_EQ(sweep_.jobs(), 4);
  EXPECT_TRUE(absl::IsNotFound(catalog_->GetSweep("grid").status()));
}

TEST_F(SweepServiceTest, IdIsCheckedAndLeavesRoomForItsJobs) {
  EXPECT_TRUE(Create(Request(std::string(59, 'a'))).ok());
  for (const std::string& id : {std::string(60, 'a'), std::string("../x"), std::string()}) {
    const grpc::Status status = Create(Request(id));
    EXPECT_EQ(DetailOf<google::rpc::BadRequest>(status).field_violations(0).field(), "sweep_id");
  }
}

TEST_F(SweepServiceTest, KnowsItsBestJobAndHowItsJobsStand) {
  ASSERT_TRUE(Create(Request("grid")).ok());
  double fvu = 0.5;
  for (int i = 0; i < 2; ++i) {
    FakeWorker worker = LaunchAndConnect();
    ASSERT_EQ(Publish(worker, Stage(worker, 10, "weights", fvu)).error(), "");
    ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
    fvu = 0.25;
  }
  EXPECT_EQ(GetSweep("grid").best_job(), "jobs/grid-001");
  EXPECT_EQ(sweep_.best_fvu(), 0.25);
  EXPECT_EQ(Get("grid-000").best_fvu(), 0.5);
  EXPECT_THAT(sweep_.jobs_by_state(),
              UnorderedElementsAre(Pair("SUCCEEDED", 2), Pair("QUEUED", 2)));
}

TEST_F(SweepServiceTest, ADamagedCheckpointIsNobodysBest) {
  ASSERT_TRUE(Create(Request("grid")).ok());
  for (const double fvu : {0.5, 0.25}) {
    FakeWorker worker = LaunchAndConnect();
    ASSERT_EQ(Publish(worker, Stage(worker, 10, "weights", fvu)).error(), "");
    ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  }
  const v1::Checkpoint best = catalog_->GetCheckpoint("grid-001", 10).value();
  ASSERT_TRUE(catalog_->PutVerdict("grid-001", best, "a byte is wrong", now_).value());
  EXPECT_EQ(GetSweep("grid").best_job(), "jobs/grid-000");
  EXPECT_EQ(sweep_.best_fvu(), 0.5);
}

// Each took a look at 100 earlier jobs, which nobody had asked for.
TEST_F(SweepServiceTest, ItsJobsAreMadeWithoutEstimatesOfTime) {
  ASSERT_TRUE(Create(Request("grid")).ok());
  v1::Job job;
  ASSERT_TRUE(CreateJob(CreateRequest("alone"), job).ok());
  EXPECT_GT(job.memory_bytes(), 0);
  EXPECT_EQ(training_->time_estimates, 0);
}

TEST_F(SweepServiceTest, APageTokenOutlivesItsSweep) {
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(Create(Request(id)).ok());
  v1::ListSweepsRequest request;
  request.set_page_size(2);
  v1::ListSweepsResponse page;
  ASSERT_TRUE(Call(&v1::JobService::Stub::ListSweeps, request, page).ok());
  ASSERT_EQ(page.sweeps(1).name(), "sweeps/b");
  ASSERT_TRUE(manager_->CancelSweep("b").ok());
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(manager_->DeleteJob(absl::StrCat("b-00", i), false).ok());
  }
  while (manager_->Tidy()) {
  }
  ASSERT_TRUE(absl::IsNotFound(catalog_->GetSweep("b").status()));
  request.set_page_token(page.next_page_token());
  ASSERT_TRUE(Call(&v1::JobService::Stub::ListSweeps, request, page).ok());
  ASSERT_EQ(page.sweeps_size(), 1);
  EXPECT_EQ(page.sweeps(0).name(), "sweeps/a");
}

TEST_F(SweepServiceTest, CancelEndsWhatHasNotEnded) {
  ASSERT_TRUE(Create(Request("grid")).ok());
  FakeWorker first = LaunchAndConnect();
  ASSERT_TRUE(SayOutcome(first, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  LaunchAndConnect();
  v1::CancelSweepRequest request;
  request.set_name("sweeps/grid");
  ASSERT_TRUE(Call(&v1::JobService::Stub::CancelSweep, request, sweep_).ok());
  EXPECT_THAT(
      sweep_.jobs_by_state(),
      UnorderedElementsAre(Pair("SUCCEEDED", 1), Pair("CANCELLING", 1), Pair("CANCELLED", 2)));
  ASSERT_TRUE(Call(&v1::JobService::Stub::CancelSweep, request, sweep_).ok());
  request.set_name("sweeps/gone");
  EXPECT_EQ(Call(&v1::JobService::Stub::CancelSweep, request, sweep_).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(SweepServiceTest, ListsInPagesAndGoesWithItsLastJob) {
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(Create(Request(id)).ok());
  v1::ListSweepsRequest request;
  request.set_page_size(2);
  v1::ListSweepsResponse page;
  ASSERT_TRUE(Call(&v1::JobService::Stub::ListSweeps, request, page).ok());
  ASSERT_EQ(page.sweeps_size(), 2);
  EXPECT_EQ(page.sweeps(0).name(), "sweeps/c");
  request.set_page_token(page.next_page_token());
  ASSERT_TRUE(Call(&v1::JobService::Stub::ListSweeps, request, page).ok());
  ASSERT_EQ(page.sweeps_size(), 1);
  EXPECT_EQ(page.next_page_token(), "");
  ASSERT_TRUE(manager_->CancelSweep("a").ok());
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(GetSweep("a").jobs(), 4 - i);
    ASSERT_TRUE(manager_->DeleteJob(absl::StrCat("a-00", i), false).ok());
    while (manager_->Tidy()) {
    }
  }
  EXPECT_TRUE(absl::IsNotFound(catalog_->GetSweep("a").status()));
}

}  // namespace
}  // namespace lorsa::server
