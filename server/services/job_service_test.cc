#include "server/services/job_service.h"

#include "server/services/job_services_test_fixture.h"

namespace lorsa::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class JobServiceTest : public JobServicesTest {
 protected:
  using WatchReader = std::unique_ptr<grpc::ClientReader<v1::WatchJobResponse>>;
  WatchReader Watch(grpc::ClientContext& context, const std::string& id, int64_t after = 0) {
    v1::WatchJobRequest request;
    request.set_name("jobs/" + id);
    request.set_after_revision(after);
    return jobs_->WatchJob(&context, request);
  }
  static v1::WatchJobResponse Read(WatchReader& reader) {
    v1::WatchJobResponse message;
    EXPECT_TRUE(reader->Read(&message));
    return message;
  }
  std::string ReadAllLogs(const std::string& id, bool follow) {
    grpc::ClientContext context;
    v1::ReadLogsRequest request;
    request.set_name("jobs/" + id);
    request.set_follow(follow);
    const auto reader = jobs_->ReadLogs(&context, request);
    std::string all;
    v1::ReadLogsResponse message;
    while (reader->Read(&message)) absl::StrAppend(&all, message.attempt(), ":", message.text());
    EXPECT_TRUE(reader->Finish().ok());
    return all;
  }
};

TEST_F(JobServiceTest, CreateResolvesTheSpecification) {
  v1::Job job;
  ASSERT_TRUE(CreateJob(CreateRequest("demo"), job).ok());
  EXPECT_EQ(job.name(), "jobs/demo");
  EXPECT_EQ(job.state(), v1::JOB_STATE_QUEUED);
  EXPECT_FALSE(job.spec().training().has_n_ov_heads());
  EXPECT_EQ(job.resolved_spec().training().n_ov_heads(), 8 * 576);
  EXPECT_EQ(job.resolved_spec().training().threads(), 2);
}

TEST_F(JobServiceTest, ValidateOnlyMakesNoJob) {
  v1::CreateJobRequest request = CreateRequest("demo");
  request.set_validate_only(true);
  v1::Job job;
  ASSERT_TRUE(CreateJob(request, job).ok());
  EXPECT_EQ(job.state(), v1::JOB_STATE_UNSPECIFIED);
  EXPECT_EQ(job.resolved_spec().training().n_ov_heads(), 8 * 576);
  EXPECT_GT(job.estimate().memory_bytes(), 0);
  EXPECT_GT(job.estimate().disk_bytes(), 0);
  EXPECT_TRUE(absl::IsNotFound(catalog_->GetJob("demo").status()));
}

TEST_F(JobServiceTest, ImpossibleSpecificationNamesEveryField) {
  v1::CreateJobRequest request = CreateRequest("demo");
  request.mutable_spec()->mutable_training()->set_top_k(1'000'000);
  request.mutable_spec()->mutable_training()->set_tokens(0);
  v1::Job job;
  const grpc::Status status = CreateJob(request, job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const auto bad_request = DetailOf<google::rpc::BadRequest>(status);
  std::vector<std::string> fields;
  for (const auto& violation : bad_request.field_violations()) {
    fields.push_back(violation.field());
  }
  EXPECT_THAT(fields,
              ::testing::UnorderedElementsAre("spec.training.top_k", "spec.training.tokens"));
}

TEST_F(JobServiceTest, QuarantinedSetIsRefused) {
  const auto quarantined =
      catalog_->UpdateActivationSet("smollm2", [](v1::ActivationSet& set) -> absl::Status {
        set.set_state(v1::ACTIVATION_SET_STATE_QUARANTINED);
        set.add_problems("shard-00003.h5 is torn");
        return absl::OkStatus();
      });
  ASSERT_TRUE(quarantined.ok()) << quarantined.status();
  v1::Job job;
  const grpc::Status status = CreateJob(CreateRequest("demo"), job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonIn(status), "SET_QUARANTINED");
  EXPECT_THAT(status.error_message(), HasSubstr("shard-00003.h5 is torn"));
}

TEST_F(JobServiceTest, BadIdsAndNamesAreRefusedByField) {
  v1::Job job;
  for (const char* id : {"", "../x", "UPPER", "a/b", "-a"}) {
    const grpc::Status status = CreateJob(CreateRequest(id), job);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << id;
    EXPECT_EQ(DetailOf<google::rpc::BadRequest>(status).field_violations(0).field(), "job_id");
  }
  v1::CreateJobRequest request = CreateRequest("demo");
  request.mutable_spec()->mutable_training()->set_activation_set("../../etc");
  EXPECT_EQ(CreateJob(request, job).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  request.mutable_spec()->mutable_training()->set_activation_set("unknown");
  EXPECT_EQ(CreateJob(request, job).error_code(), grpc::StatusCode::NOT_FOUND);
  grpc::ClientContext context;
  v1::GetJobRequest get;
  get.set_name("demo");
  EXPECT_EQ(jobs_->GetJob(&context, get, &job).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

// A nested unknown field was stored with the job, whatever its size.
TEST_F(JobServiceTest, RefusesUnknownFieldsAtAnyDepth) {
  const auto add_unknown = [](google::protobuf::Message& message) {
    message.GetReflection()->MutableUnknownFields(&message)->AddVarint(9999, 1);
  };
  v1::CreateJobRequest top = CreateRequest("demo"), nested = top, policy = top;
  add_unknown(*top.mutable_spec());
  add_unknown(*nested.mutable_spec()->mutable_training()->mutable_rope()->mutable_ntk_by_parts());
  add_unknown(*policy.mutable_policy()->mutable_ttl());
  for (const auto& [request, field] : {std::pair(top, "spec"),
                                       {nested, "spec.training.rope.ntk_by_parts"},
                                       {policy, "policy.ttl"}}) {
    v1::Job job;
    const grpc::Status status = CreateJob(request, job);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << field;
    EXPECT_THAT(status.error_message(), HasSubstr("does not know"));
    EXPECT_EQ(DetailOf<google::rpc::BadRequest>(status).field_violations(0).field(), field);
  }
}

TEST_F(JobServiceTest, RepeatedRequestReturnsTheSameJob) {
  v1::CreateJobRequest request = CreateRequest("demo");
  request.set_request_id("r1");
  v1::Job first, second;
  ASSERT_TRUE(CreateJob(request, first).ok());
  ASSERT_TRUE(CreateJob(request, second).ok());
  EXPECT_EQ(first.create_time().seconds(), second.create_time().seconds());
  request.mutable_spec()->mutable_training()->set_top_k(32);
  EXPECT_EQ(CreateJob(request, second).error_code(), grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(JobServiceTest, ListsInPages) {
  v1::Job job;
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(CreateJob(CreateRequest(id), job).ok());
  v1::ListJobsRequest request;
  request.set_page_size(2);
  v1::ListJobsResponse page;
  ASSERT_TRUE(ListJobs(request, page).ok());
  ASSERT_THAT(page.jobs(), SizeIs(2));
  EXPECT_EQ(page.jobs(0).name(), "jobs/c");
  request.set_page_token(page.next_page_token());
  ASSERT_TRUE(ListJobs(request, page).ok());
  ASSERT_THAT(page.jobs(), SizeIs(1));
  EXPECT_EQ(page.jobs(0).name(), "jobs/a");
  EXPECT_EQ(page.next_page_token(), "");
}

// The job that a page ended with was deleted before the next page was asked for: INVALID_ARGUMENT.
TEST_F(JobServiceTest, APageTokenOutlivesItsJob) {
  v1::Job job;
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(CreateJob(CreateRequest(id), job).ok());
  v1::ListJobsRequest request;
  request.set_page_size(2);
  v1::ListJobsResponse page;
  ASSERT_TRUE(ListJobs(request, page).ok());
  ASSERT_EQ(page.jobs(1).name(), "jobs/b");
  ASSERT_TRUE(manager_->CancelJob("b").ok());
  ASSERT_TRUE(manager_->DeleteJob("b", false).ok());
  while (manager_->Tidy()) {
  }
  request.set_page_token(page.next_page_token());
  ASSERT_TRUE(ListJobs(request, page).ok());
  ASSERT_THAT(page.jobs(), SizeIs(1));
  EXPECT_EQ(page.jobs(0).name(), "jobs/a");

  request.set_page_token("b");
  EXPECT_EQ(ListJobs(request, page).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(JobServiceTest, PageOfLargeJobsEndsAtTwoMebibytes) {
  for (const char* id : {"a", "b", "c", "d"}) {
    NewJob job{.id = id};
    job.spec.mutable_training()->set_activation_set(std::string(900 << 10, 's'));
    ASSERT_TRUE(catalog_->CreateJob(job, absl::Now()).ok());
  }
  v1::ListJobsRequest request;
  std::vector<std::string> names;
  std::vector<int> sizes;
  do {
    v1::ListJobsResponse page;
    ASSERT_TRUE(ListJobs(request, page).ok());
    for (const v1::Job& job : page.jobs()) names.push_back(job.name());
    sizes.push_back(page.jobs_size());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && sizes.size() < 10);
  EXPECT_THAT(names, ElementsAre("jobs/d", "jobs/c", "jobs/b", "jobs/a"));
  EXPECT_THAT(sizes, ElementsAre(2, 2));
}

TEST_F(JobServiceTest, VerbInTheWrongStateSaysWhy) {
  v1::Job job;
  ASSERT_TRUE(CreateJob(CreateRequest("demo"), job).ok());
  grpc::ClientContext context;
  v1::PauseJobRequest request;
  request.set_name("jobs/demo");
  const grpc::Status status = jobs_->PauseJob(&context, request, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonIn(status), "WRONG_JOB_STATE");
  EXPECT_EQ(DetailOf<google::rpc::ErrorInfo>(status).metadata().at("state"), "QUEUED");
}

TEST_F(JobServiceTest, WatchGivesTheJobThenHistoryThenLiveEventsAndEndsWithTheFinalOne) {
  auto worker = RunJob("demo");
  grpc::ClientContext context;
  WatchReader watch = Watch(context, "demo");
  EXPECT_EQ(Read(watch).job().state(), v1::JOB_STATE_RUNNING);
  for (int64_t revision = 1; revision <= 4; ++revision) {
    EXPECT_EQ(Read(watch).event().revision(), revision);
  }
  v1::WorkerMessage heartbeat;
  heartbeat.mutable_heartbeat()->mutable_progress()->set_step(7);
  worker->Say(heartbeat);
  EXPECT_EQ(Read(watch).progress().step(), 7);
  worker->Say(OutcomeMessage(v1::WorkerOutcome::KIND_SUCCEEDED));
  const v1::WatchJobResponse last = Read(watch);
  EXPECT_EQ(last.event().revision(), 5);
  EXPECT_EQ(last.event().to_state(), v1::JOB_STATE_SUCCEEDED);
  v1::WatchJobResponse none;
  EXPECT_FALSE(watch->Read(&none));
  EXPECT_TRUE(watch->Finish().ok());
}

TEST_F(JobServiceTest, WatchResumesAfterARevision) {
  auto worker = RunJob("demo");
  grpc::ClientContext context;
  WatchReader watch = Watch(context, "demo", /*after=*/3);
  Read(watch);
  EXPECT_EQ(Read(watch).event().revision(), 4);
  context.TryCancel();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING) << "cancelling a watch cancels no job";
}

TEST_F(JobServiceTest, WatchOfAnEndedJobEnds) {
  v1::Job job;
  ASSERT_TRUE(CreateJob(CreateRequest("demo"), job).ok());
  ASSERT_TRUE(manager_->CancelJob("demo").ok());
  for (const int64_t after : {0, 1, 2}) {
    grpc::ClientContext context;
    WatchReader watch = Watch(context, "demo", after);
    int messages = 0;
    for (v1::WatchJobResponse message; watch->Read(&message);) ++messages;
    EXPECT_EQ(messages, 1 + std::max<int64_t>(2 - after, 0));
    EXPECT_TRUE(watch->Finish().ok());
  }
}

// A watch after a revision that the job does not have never ended.
TEST_F(JobServiceTest, WatchAfterAnEventThatIsNotThereIsRefused) {
  auto worker = RunJob("demo");
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  WatchReader watch = Watch(context, "demo", /*after=*/5);
  v1::WatchJobResponse none;
  EXPECT_FALSE(watch->Read(&none));
  const grpc::Status status = watch->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(DetailOf<google::rpc::BadRequest>(status).field_violations(0).field(),
            "after_revision");
}

TEST_F(JobServiceTest, WatchOfNoJobIsNotFound) {
  grpc::ClientContext context;
  WatchReader watch = Watch(context, "gone");
  v1::WatchJobResponse none;
  EXPECT_FALSE(watch->Read(&none));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(JobServiceTest, LogsOfAllAttemptsComeInOrder) {
  RunJob("demo");
  ASSERT_TRUE(WriteFileAtomically(fs_, Layout().LogFile("demo", 1), "first\n").ok());
  launcher_.EndLast();
  Poll();
  Advance(options_.first_backoff);
  Poll();
  ASSERT_TRUE(WriteFileAtomically(fs_, Layout().LogFile("demo", 2), "second\nthi").ok());
  EXPECT_EQ(ReadAllLogs("demo", /*follow=*/false), "1:first\n2:second\n2:thi");
}

TEST_F(JobServiceTest, LogsAreReadOnFromAnEarlierEnd) {
  RunJob("demo");
  ASSERT_TRUE(WriteFileAtomically(fs_, Layout().LogFile("demo", 1), "one\ntwo\n").ok());
  v1::ReadLogsRequest request;
  request.set_name("jobs/demo");
  request.mutable_start()->set_attempt(1);
  request.mutable_start()->set_offset(4);
  v1::ReadLogsResponse response;
  grpc::ClientContext context;
  const auto reader = jobs_->ReadLogs(&context, request);
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.text(), "two\n");
  EXPECT_EQ(response.end().attempt(), 1);
  EXPECT_EQ(response.end().offset(), 8);
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_TRUE(reader->Finish().ok());

  for (const auto& [attempt, offset] : {std::pair{0, 0}, {1, -1}}) {
    request.mutable_start()->set_attempt(attempt);
    request.mutable_start()->set_offset(offset);
    grpc::ClientContext refused;
    const auto none = jobs_->ReadLogs(&refused, request);
    EXPECT_FALSE(none->Read(&response));
    EXPECT_EQ(none->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
}

TEST_F(JobServiceTest, FollowedLogsGoOnUntilTheJobHasEnded) {
  auto worker = RunJob("demo");
  const std::string log = Layout().LogFile("demo", 1);
  ASSERT_TRUE(WriteFileAtomically(fs_, log, "one\n").ok());
  std::string all;
  std::thread reader([&] { all = ReadAllLogs("demo", /*follow=*/true); });
  ASSERT_TRUE(WriteFileAtomically(fs_, log, "one\ntwo\n").ok());
  Poll();  // The tick by which followers look again.
  ASSERT_TRUE(WriteFileAtomically(fs_, log, "one\ntwo\nlast").ok());
  worker->Say(OutcomeMessage(v1::WorkerOutcome::KIND_SUCCEEDED));
  reader.join();
  std::string text;
  for (const char c : all) {
    if (c != '1' && c != ':') text += c;
  }
  EXPECT_EQ(text, "one\ntwo\nlast");
}

}  // namespace
}  // namespace lorsa::server
