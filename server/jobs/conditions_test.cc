// What holds jobs up without being theirs: a full disk, an unreadable catalog.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "server/jobs/condition_log.h"
#include "server/jobs/jobs_test_fixture.h"

namespace lorsa::server {
namespace {

using ::testing::HasSubstr;

// What is logged while it lives.
class CapturedLog {
 public:
  CapturedLog() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "captured", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }

  int CountOf(const std::string& part) const {
    int count = 0;
    const std::string text = text_.str();
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++count;
    }
    return count;
  }

 private:
  std::ostringstream text_;
  const std::shared_ptr<spdlog::logger> before_;
};

TEST(ConditionLogTest, SaysWhatBeginsChangesAndEndsAndNothingInBetween) {
  const CapturedLog log;
  ConditionLog condition("disk");
  condition.Note("");
  for (int i = 0; i < 3; ++i) condition.Note("full");
  condition.Note("gone");
  condition.Note("");
  condition.Note("");
  EXPECT_EQ(log.CountOf("event=disk full"), 1);
  EXPECT_EQ(log.CountOf("event=disk gone"), 1);
  EXPECT_EQ(log.CountOf("event=disk state=over"), 1);
}

using ConditionsTest = JobsTest;

// A missing program of one kind would have failed its jobs, or held up all others.
TEST_F(ConditionsTest, JobsOfAKindThatCannotRunWaitAndHoldUpNobody) {
  auto kind = std::make_unique<FakeKind>();
  FakeKind& digest = *kind;
  digest.obstacle = "/opt/digest is missing";
  digest.command = {"/opt/digest", "--fast"};
  kinds_.Add("digest", std::move(kind));
  for (const char* name : {"digest", "forgotten"}) {
    NewJob job{.id = name};
    job.resolved_spec.mutable_program()->set_kind(name);
    ASSERT_TRUE(manager_->CreateJob(job).ok());
  }
  Create("training");
  Poll();
  EXPECT_EQ(State("training"), v1::JOB_STATE_STARTING);
  EXPECT_EQ(Get("digest").waiting_for(), "PROGRAM_MISSING");
  EXPECT_EQ(Get("digest").waiting_message(), "/opt/digest is missing");
  EXPECT_EQ(Get("forgotten").waiting_for(), "JOB_KIND_MISSING");
  EXPECT_THAT(Get("forgotten").waiting_message(), HasSubstr("no jobs of kind 'forgotten'"));
  FakeWorker worker = Launched();
  ASSERT_TRUE(Connect(worker).ok());
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  digest.obstacle.clear();
  Poll();
  EXPECT_EQ(State("digest"), v1::JOB_STATE_STARTING);
  EXPECT_THAT(launcher_.launched.back().command, ::testing::ElementsAre("/opt/digest", "--fast"));
}

TEST_F(ConditionsTest, NothingIsLaunchedWhileSomethingIsInTheWay) {
  std::string obstacle = "the disk is nearly full";
  JobEnvironment environment = Environment();
  environment.launch_obstacle = [&] { return obstacle; };
  manager_ = std::make_unique<JobManager>(options_, environment);
  const CapturedLog log;
  Create("waits");
  for (int i = 0; i < 5; ++i) Poll();
  EXPECT_EQ(State("waits"), v1::JOB_STATE_QUEUED);
  EXPECT_TRUE(launcher_.launched.empty());
  EXPECT_EQ(log.CountOf("event=launches_held_back"), 1);

  obstacle.clear();
  Poll();
  EXPECT_EQ(State("waits"), v1::JOB_STATE_STARTING);
  EXPECT_EQ(log.CountOf("event=launches_held_back state=over"), 1);
}

TEST_F(ConditionsTest, ADiskThatStaysFullIsLoggedOnce) {
  Create("waits");
  // A file where the job's folder must be: no attempt can be prepared.
  std::filesystem::create_directories(folder_ + "/jobs");
  ASSERT_TRUE(WriteFileAtomically(fs_, folder_ + "/jobs/waits", "in the way").ok());
  const CapturedLog log;
  for (int i = 0; i < 10; ++i) {
    Poll();
    Advance(absl::Seconds(3));
  }
  EXPECT_EQ(log.CountOf("launch_failed"), 1);
  std::filesystem::remove(folder_ + "/jobs/waits");
  Advance(options_.max_backoff);
  Poll();
  EXPECT_EQ(State("waits"), v1::JOB_STATE_STARTING);
  EXPECT_EQ(log.CountOf("event=poll_failed state=over"), 1);
}

// A server whose catalog cannot be read used to wait out its drain deadline of two minutes.
TEST_F(ConditionsTest, ADrainWithAnUnreadableCatalogIsOverAtOnce) {
  FakeWorker worker = Run("runs");
  for (const char* suffix : {"", "-wal"}) {
    std::filesystem::resize_file(Layout().CatalogFile() + suffix, 0);
  }
  const CapturedLog log;
  manager_->BeginDrain();
  Poll();
  const absl::Time start = absl::Now();
  EXPECT_FALSE(manager_->AwaitDrained(absl::Minutes(2)));
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
  Poll();
  EXPECT_EQ(log.CountOf("catalog_failed"), 1);
}

}  // namespace
}  // namespace lorsa::server
