#include "server/catalog/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/catalog/sqlite.h"

namespace lorsa::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(500'000);

NewJob Named(const std::string& id, const std::string& request_id = "") {
  NewJob job;
  job.id = id;
  job.spec.set_top_k(64);
  job.resolved_spec = job.spec;
  job.resolved_spec.set_seed(7);
  job.request = {.id = request_id, .sha256 = "sha256 of " + id};
  return job;
}

absl::Status AnyCheckpoint(const JobRecord&, const v1::Checkpoint&) { return absl::OkStatus(); }

JobDecision To(v1::JobState state) {
  return [state](const JobRecord&) -> absl::StatusOr<JobChange> {
    return JobChange{.state = state, .reason = "TEST"};
  };
}

v1::MetricPoint Point(int64_t step, double loss, v1::MetricKind kind = v1::METRIC_KIND_TRAINING) {
  v1::MetricPoint point;
  point.set_kind(kind);
  point.set_step(step);
  point.set_tokens(step * 2048);
  point.mutable_time()->set_seconds(1'800'000'000 + step);
  (*point.mutable_values())["loss"] = loss;
  return point;
}

v1::Checkpoint CheckpointAt(int64_t step, std::optional<double> fvu = std::nullopt) {
  v1::Checkpoint checkpoint;
  checkpoint.set_step(step);
  checkpoint.set_tokens(step * 2048);
  checkpoint.add_files()->set_name("config.json");
  if (fvu.has_value()) checkpoint.set_fvu(*fvu);
  return checkpoint;
}

class CatalogTest : public ::testing::Test {
 protected:
  CatalogTest() {
    std::string folder = ::testing::TempDir() + "catalog_XXXXXX";
    folder_ = ::mkdtemp(folder.data());
    Reopen();
  }
  ~CatalogTest() override {
    catalog_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string Path() const { return folder_ + "/catalog.sqlite"; }

  void Reopen() {
    catalog_.reset();
    auto catalog = Catalog::Open(Path());
    ASSERT_TRUE(catalog.ok()) << catalog.status();
    catalog_ = *std::move(catalog);
  }

  JobRecord Create(const std::string& id) { return catalog_->CreateJob(Named(id), kStart).value(); }

  // A job in its attempt number 1, RUNNING.
  AttemptKey Running(const std::string& id) {
    Create(id);
    return Launch(id);
  }
  AttemptKey Launch(const std::string& id) {
    const auto starting = catalog_->UpdateJob(id, kStart, [&](const JobRecord& job) {
      return absl::StatusOr<JobChange>(JobChange{
          .state = v1::JOB_STATE_STARTING,
          .new_attempt_token_sha256 = absl::StrCat(id, "-token-", job.job.attempt() + 1)});
    });
    EXPECT_TRUE(starting.ok()) << starting.status();
    EXPECT_TRUE(catalog_->UpdateJob(id, kStart, To(v1::JOB_STATE_RUNNING)).ok());
    return {id, starting->job.attempt()};
  }
  // The same job in its next attempt.
  AttemptKey Recovered(const std::string& id) {
    EXPECT_TRUE(catalog_->UpdateJob(id, kStart, To(v1::JOB_STATE_RECOVERING)).ok());
    return Launch(id);
  }

  std::vector<int64_t> Steps(const std::string& id) {
    std::vector<int64_t> steps;
    const auto checkpoints = catalog_->ListCheckpoints(id).value();
    for (const auto& checkpoint : checkpoints) {
      steps.push_back(checkpoint.step());
    }
    return steps;
  }

  std::string folder_;
  std::unique_ptr<Catalog> catalog_;
};

TEST_F(CatalogTest, AJobThatEndsLeavesANoticeForItsWebhook) {
  NewJob job = Named("demo");
  job.policy.set_webhook("https://example.org/hook");
  ASSERT_TRUE(catalog_->CreateJob(job, kStart).ok());
  const AttemptKey attempt = Launch("demo");
  ASSERT_TRUE(catalog_
                  ->PutMetrics(attempt, 1,
                               {Point(10, 0.5, v1::METRIC_KIND_EVALUATION), Point(12, 0.3),
                                Point(20, 0.25, v1::METRIC_KIND_EVALUATION)})
                  .ok());
  ASSERT_TRUE(catalog_->PutCheckpoint(attempt, CheckpointAt(20, 0.4), true, kStart).ok());
  EXPECT_THAT(*catalog_->DueNotices(kStart, {.per_receiver = 10}), IsEmpty());
  const absl::Time end = kStart + absl::Seconds(9);
  ASSERT_TRUE(catalog_->UpdateJob("demo", end, To(v1::JOB_STATE_SUCCEEDED)).ok());
  Reopen();
  EXPECT_THAT(*catalog_->DueNotices(end - absl::Nanoseconds(1), {.per_receiver = 10}), IsEmpty());
  const auto due = catalog_->DueNotices(end, {.per_receiver = 10});
  ASSERT_TRUE(due.ok()) << due.status();
  ASSERT_THAT(*due, SizeIs(1));
  const PendingNotice& notice = due->front();
  EXPECT_EQ(notice.url, "https://example.org/hook");
  EXPECT_EQ(notice.tries, 0);
  EXPECT_EQ(notice.notice.id(),
            absl::StrCat("demo:", notice.notice.job().revision(), ":", absl::ToUnixNanos(end)));
  EXPECT_EQ(notice.notice.job().state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(notice.notice.job().best_checkpoint(), "jobs/demo/checkpoints/step-000000020");
  EXPECT_EQ(notice.notice.evaluation().step(), 20);

  ASSERT_TRUE(catalog_->PostponeNotice(notice.number, end + absl::Seconds(5)).ok());
  EXPECT_THAT(*catalog_->DueNotices(end, {.per_receiver = 10}), IsEmpty());
  EXPECT_EQ(catalog_->DueNotices(end + absl::Seconds(5), {.per_receiver = 10})->front().tries, 1);
  ASSERT_TRUE(catalog_->RemoveNotice(notice.number).ok());
  EXPECT_THAT(*catalog_->DueNotices(absl::InfiniteFuture(), {.per_receiver = 10}), IsEmpty());
}

// A receiver drops notices whose id it has seen, and so dropped those of the second job.
TEST_F(CatalogTest, AJobMadeAnewUnderItsNameHasNoticesOfItsOwn) {
  NewJob job = Named("demo");
  job.policy.set_webhook("https://example.org/hook");
  for (const absl::Time end : {kStart, kStart + absl::Nanoseconds(1)}) {
    ASSERT_TRUE(catalog_->CreateJob(job, end).ok());
    ASSERT_TRUE(catalog_->UpdateJob("demo", end, To(v1::JOB_STATE_CANCELLED)).ok());
    const auto any = [](const JobRecord&) { return absl::OkStatus(); };
    ASSERT_TRUE(catalog_->DeleteJob("demo", any).ok());
    while (!catalog_->PurgeJob("demo").value()) {
    }
  }
  const auto due = catalog_->DueNotices(absl::InfiniteFuture(), {}).value();
  ASSERT_THAT(due, SizeIs(1));  // the older one of this id
  ASSERT_TRUE(catalog_->RemoveNotice(due[0].number).ok());
  const auto next = catalog_->DueNotices(absl::InfiniteFuture(), {}).value();
  ASSERT_THAT(next, SizeIs(1));
  EXPECT_EQ(due[0].notice.job().revision(), next[0].notice.job().revision());
  EXPECT_NE(due[0].notice.id(), next[0].notice.id());
}

TEST_F(CatalogTest, EachReceiverHasNoMoreNoticesDueThanItMayGet) {
  for (const char* id : {"a", "b", "c", "d"}) {
    NewJob job = Named(id);
    job.policy.set_webhook(*id == 'd' ? "http://other.org:81?x" : "https://Example.org/hook");
    ASSERT_TRUE(catalog_->CreateJob(job, kStart).ok());
    ASSERT_TRUE(catalog_->UpdateJob(id, kStart, To(v1::JOB_STATE_CANCELLED)).ok());
  }
  std::vector<std::string> receivers;
  for (const auto& due : catalog_->DueNotices(kStart, {.per_receiver = 2}).value()) {
    receivers.push_back(due.receiver);
  }
  EXPECT_THAT(receivers, ElementsAre("example.org", "example.org", "other.org:81"));
}

TEST_F(CatalogTest, AJobWithoutAWebhookLeavesNoNotice) {
  Create("demo");
  ASSERT_TRUE(catalog_->UpdateJob("demo", kStart, To(v1::JOB_STATE_CANCELLED)).ok());
  EXPECT_THAT(*catalog_->DueNotices(absl::InfiniteFuture(), {.per_receiver = 10}), IsEmpty());
}

TEST_F(CatalogTest, JobSurvivesReopening) {
  Create("demo");
  Reopen();
  const JobRecord job = catalog_->GetJob("demo").value();
  EXPECT_EQ(job.job.name(), "jobs/demo");
  EXPECT_EQ(job.job.state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(job.job.reason(), "CREATED");
  EXPECT_EQ(job.job.revision(), 1);
  EXPECT_EQ(job.job.spec().top_k(), 64);
  EXPECT_EQ(job.job.resolved_spec().seed(), 7);
  EXPECT_EQ(job.job.create_time().seconds(), absl::ToUnixSeconds(kStart));
  EXPECT_FALSE(job.job.has_start_time());
}

TEST_F(CatalogTest, SameRequestGivesTheSameJobAlsoAfterReopening) {
  ASSERT_TRUE(catalog_->CreateJob(Named("demo", "r1"), kStart).ok());
  Reopen();
  const auto again = catalog_->CreateJob(Named("demo", "r1"), kStart + absl::Seconds(5));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->job.create_time().seconds(), absl::ToUnixSeconds(kStart));
  EXPECT_EQ(again->job.revision(), 1);
}

TEST_F(CatalogTest, TakenIdIsRefusedForAnotherRequest) {
  ASSERT_TRUE(catalog_->CreateJob(Named("demo", "r1"), kStart).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(catalog_->CreateJob(Named("demo", "r2"), kStart).status()));
  EXPECT_TRUE(absl::IsAlreadyExists(catalog_->CreateJob(Named("demo"), kStart).status()));
  NewJob other = Named("demo", "r1");
  other.request.sha256 = "sha256 of another request";
  EXPECT_TRUE(absl::IsAlreadyExists(catalog_->CreateJob(other, kStart).status()));
}

TEST_F(CatalogTest, WithoutRequestIdARepeatIsRefused) {
  Create("demo");
  EXPECT_TRUE(absl::IsAlreadyExists(catalog_->CreateJob(Named("demo"), kStart).status()));
}

TEST_F(CatalogTest, ChangeWritesRowAndEventTogether) {
  Create("demo");
  const absl::Time later = kStart + absl::Seconds(3);
  ASSERT_TRUE(catalog_->UpdateJob("demo", later, To(v1::JOB_STATE_CANCELLED)).ok());
  const JobRecord job = catalog_->GetJob("demo").value();
  EXPECT_EQ(job.job.state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(job.job.end_time().seconds(), absl::ToUnixSeconds(later));
  const auto events = catalog_->ListEvents("demo", 1, 10).value();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].revision(), 2);
  EXPECT_EQ(events[0].from_state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(events[0].to_state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(events[0].reason(), "TEST");
}

TEST_F(CatalogTest, IllegalEdgeChangesNothing) {
  Create("demo");
  const auto status = catalog_->UpdateJob("demo", kStart, To(v1::JOB_STATE_SUCCEEDED)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("QUEUED and cannot become SUCCEEDED"));
  EXPECT_EQ(catalog_->GetJob("demo")->job.revision(), 1);
  EXPECT_THAT(catalog_->ListEvents("demo", 0, 10).value(), SizeIs(1));
}

TEST_F(CatalogTest, RefusedDecisionChangesNothing) {
  Create("demo");
  const auto refuse = [](const JobRecord&) -> absl::StatusOr<JobChange> {
    return absl::CancelledError("no");
  };
  EXPECT_TRUE(absl::IsCancelled(catalog_->UpdateJob("demo", kStart, refuse).status()));
  EXPECT_EQ(catalog_->GetJob("demo")->job.revision(), 1);
}

TEST_F(CatalogTest, OfTwoRacingChangesExactlyOneWins) {
  for (int round = 0; round < 50; ++round) {
    const std::string id = absl::StrCat("race-", round);
    Running(id);
    absl::Status ended, paused;
    std::thread a(
        [&] { ended = catalog_->UpdateJob(id, kStart, To(v1::JOB_STATE_SUCCEEDED)).status(); });
    std::thread b(
        [&] { paused = catalog_->UpdateJob(id, kStart, To(v1::JOB_STATE_RECOVERING)).status(); });
    a.join();
    b.join();
    // RECOVERING → SUCCEEDED and SUCCEEDED → RECOVERING are both illegal.
    EXPECT_NE(ended.ok(), paused.ok()) << ended << " / " << paused;
    EXPECT_EQ(catalog_->GetJob(id)->job.state(),
              ended.ok() ? v1::JOB_STATE_SUCCEEDED : v1::JOB_STATE_RECOVERING);
  }
}

// A connection answered from its cache, and the server called a truncated catalog readable.
TEST_F(CatalogTest, DamageIsSeenBehindTheCaches) {
  Create("job");
  EXPECT_EQ(catalog_->CountJobs(v1::JOB_STATE_QUEUED).value(), 1);
  EXPECT_TRUE(catalog_->CheckReadable().ok());
  for (const char* suffix : {"", "-wal"}) std::filesystem::resize_file(Path() + suffix, 0);
  EXPECT_FALSE(catalog_->CheckReadable().ok());
  std::filesystem::remove(Path());
  EXPECT_TRUE(absl::IsNotFound(catalog_->CheckReadable()));
  EXPECT_FALSE(std::filesystem::exists(Path())) << "reading made a new one";
}

TEST_F(CatalogTest, ManyWritersAtOnceLoseNothing) {
  constexpr int kThreads = 16;
  constexpr int kJobs = 20;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kJobs; ++i) Create(absl::StrCat("job-", t, "-", i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  Reopen();
  EXPECT_EQ(catalog_->CountJobs(v1::JOB_STATE_QUEUED).value(), kThreads * kJobs);
}

TEST_F(CatalogTest, OneFailedWriteOfAGroupDoesNotUndoTheOthers) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      const auto status = catalog_->CreateJob(Named(absl::StrCat("job-", i % 8)), kStart).status();
      EXPECT_TRUE(status.ok() || absl::IsAlreadyExists(status)) << status;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(catalog_->CountJobs(v1::JOB_STATE_QUEUED).value(), 8);
}

TEST_F(CatalogTest, QueueIsFirstInFirstOutAndResumedJobsGoToTheEnd) {
  for (const char* id : {"a", "b", "c"}) Create(id);
  ASSERT_TRUE(catalog_
                  ->UpdateJob("a", kStart,
                              [](const JobRecord&) -> absl::StatusOr<JobChange> {
                                return JobChange{.reason = "TEST", .to_end_of_queue = true};
                              })
                  .ok());
  std::vector<std::string> ids;
  const auto take_two = [&](const JobRecord& job) {
    ids.push_back(job.id);
    return ids.size() < 2;
  };
  ASSERT_TRUE(catalog_->VisitQueuedJobs(take_two).ok());
  EXPECT_THAT(ids, ElementsAre("b", "c"));
}

TEST_F(CatalogTest, ListsNewestFirstInPagesAndByState) {
  for (const char* id : {"a", "b", "c"}) Create(id);
  ASSERT_TRUE(catalog_->UpdateJob("b", kStart, To(v1::JOB_STATE_CANCELLED)).ok());
  const auto ids = [&](const JobFilter& filter) {
    std::vector<std::string> ids;
    const auto jobs = catalog_->ListJobs(filter).value();
    for (const StoredJob& job : jobs) ids.push_back(job.record.id);
    return ids;
  };
  EXPECT_THAT(ids({.limit = 2}), ElementsAre("c", "b"));
  EXPECT_THAT(ids({.before = catalog_->ListJobs({})->at(1).number, .limit = 2}), ElementsAre("a"));
  EXPECT_THAT(ids({.state = v1::JOB_STATE_QUEUED}), ElementsAre("c", "a"));
}

TEST_F(CatalogTest, ActiveJobsAreThoseThatHoldASlot) {
  Create("waiting");
  Running("running");
  Running("recovering");
  ASSERT_TRUE(catalog_->UpdateJob("recovering", kStart, To(v1::JOB_STATE_RECOVERING)).ok());
  std::vector<std::string> ids;
  const auto jobs = catalog_->ActiveJobs().value();
  for (const JobRecord& job : jobs) ids.push_back(job.id);
  EXPECT_THAT(ids, ElementsAre("running", "recovering"));
}

TEST_F(CatalogTest, AttemptIsFoundByItsTokenAlsoWhenItIsOver) {
  const AttemptKey first = Running("demo");
  const AttemptKey second = Recovered("demo");
  EXPECT_EQ(second.attempt, first.attempt + 1);
  EXPECT_EQ(catalog_->FindAttempt("demo-token-1")->key.attempt, 1);
  EXPECT_EQ(catalog_->FindAttempt("demo-token-2")->key.attempt, 2);
  EXPECT_FALSE(catalog_->FindAttempt("demo-token-1")->is_current);
  EXPECT_TRUE(catalog_->FindAttempt("demo-token-2")->is_current);
  EXPECT_TRUE(absl::IsNotFound(catalog_->FindAttempt("demo-token-3").status()));
}

TEST_F(CatalogTest, WorkerAndBackoffSurviveReopening) {
  Running("demo");
  const ProcessIdentity worker{"boot", 4711, 99};
  ASSERT_TRUE(catalog_
                  ->UpdateJob("demo", kStart,
                              [&](const JobRecord&) -> absl::StatusOr<JobChange> {
                                return JobChange{.reason = "TEST",
                                                 .worker = worker,
                                                 .not_before = kStart + absl::Seconds(8),
                                                 .recoveries = 3};
                              })
                  .ok());
  Reopen();
  const JobRecord job = catalog_->GetJob("demo").value();
  EXPECT_EQ(job.worker, worker);
  EXPECT_EQ(job.not_before, kStart + absl::Seconds(8));
  EXPECT_EQ(job.recoveries, 3);
}

TEST_F(CatalogTest, NewerAttemptsPointStandsInTheOldersPlace) {
  const AttemptKey first = Running("demo");
  ASSERT_TRUE(catalog_->PutMetrics(first, 1, {Point(1, 0.5), Point(2, 0.4)}).ok());
  const AttemptKey second = Recovered("demo");
  ASSERT_TRUE(catalog_->PutMetrics(second, 1, {Point(2, 0.3)}).ok());
  const auto points =
      catalog_->QueryMetrics("demo", {.kind = v1::METRIC_KIND_TRAINING}).value().points;
  ASSERT_THAT(points, SizeIs(2));
  EXPECT_EQ(points[1].attempt(), 2);
  EXPECT_EQ(points[1].values().at("loss"), 0.3);
  EXPECT_EQ(points[1].tokens(), 4096);
  EXPECT_EQ(points[1].time().seconds(), 1'800'000'002);
  // A reader that had seen all of the first attempt meets the replaced point again.
  const auto fresh = catalog_->MetricsAfter("demo", 2, {}, 10).value().points;
  ASSERT_THAT(fresh, SizeIs(1));
  EXPECT_EQ(fresh[0].step(), 2);
}

// A batch that was committed between the reading of training points and that of evaluations gave a
// reader its evaluation, and the reader went on after it: the training point was never seen.
TEST_F(CatalogTest, AReaderThatFollowsSkipsNoPoint) {
  constexpr int kBatches = 400;
  const AttemptKey attempt = Running("demo");
  std::thread writer([&] {
    for (int step = 1; step <= kBatches; ++step) {
      const std::vector<v1::MetricPoint> batch = {Point(step, 0.5),
                                                  Point(step, 0.5, v1::METRIC_KIND_EVALUATION)};
      ASSERT_TRUE(catalog_->PutMetrics(attempt, step, batch).ok());
    }
  });
  int64_t last = 0;
  int64_t skipped = 0;
  while (last + skipped < 2 * kBatches) {
    const auto points = catalog_->MetricsAfter("demo", last, {}, 256).value().points;
    for (const v1::MetricPoint& point : points) {
      skipped += point.sequence() - last - 1;
      last = point.sequence();
    }
    if (skipped > 0) break;
  }
  writer.join();
  EXPECT_EQ(skipped, 0) << "after sequence " << last;
}

TEST_F(CatalogTest, MetricsComeWithTheStateOfTheirMoment) {
  const AttemptKey attempt = Running("demo");
  EXPECT_EQ(catalog_->MetricsAfter("demo", 0, {}, 10)->state, v1::JOB_STATE_RUNNING);
  ASSERT_TRUE(catalog_->UpdateJob("demo", kStart, To(v1::JOB_STATE_SUCCEEDED)).ok());
  EXPECT_EQ(catalog_->MetricsAfter("demo", 0, {}, 10)->state, v1::JOB_STATE_SUCCEEDED);
}

// 10,000 points of 64 values are tens of megabytes; clients take 4 MiB a message.
TEST_F(CatalogTest, RangesAreBoundedInBytes) {
  const AttemptKey attempt = Running("demo");
  std::vector<v1::MetricPoint> points;
  for (int step = 1; step <= 200; ++step) {
    v1::MetricPoint& point = points.emplace_back(Point(step, 0.5));
    for (int i = 0; i < 50; ++i) (*point.mutable_values())[absl::StrCat("value_of_", i)] = i;
  }
  ASSERT_TRUE(catalog_->PutMetrics(attempt, 1, points).ok());
  const auto bytes_of = [](const MetricsInRange& range) {
    size_t bytes = 0;
    for (const v1::MetricPoint& point : range.points) bytes += point.ByteSizeLong();
    return bytes;
  };
  MetricRange range{.kind = v1::METRIC_KIND_TRAINING, .limit = 1000, .max_bytes = 32 << 10};
  std::vector<int64_t> steps;
  for (std::optional<int64_t> next = 0; next.has_value();) {
    range.start_step = *next;
    const MetricsInRange page = catalog_->QueryMetrics("demo", range).value();
    EXPECT_LE(bytes_of(page), range.max_bytes);
    ASSERT_FALSE(page.points.empty());
    for (const v1::MetricPoint& point : page.points) steps.push_back(point.step());
    next = page.next_step;
  }
  EXPECT_THAT(steps, SizeIs(200)) << "the pages together have every point, once";

  range.start_step = 0;
  range.thinned = true;
  const MetricsInRange thinned = catalog_->QueryMetrics("demo", range).value();
  EXPECT_LE(bytes_of(thinned), range.max_bytes);
  EXPECT_GT(thinned.points.size(), 10);
  EXPECT_EQ(thinned.points.front().step(), 1);
  EXPECT_EQ(thinned.points.back().step(), 200);

  range.names = {"loss"};
  EXPECT_THAT(catalog_->QueryMetrics("demo", range)->points, SizeIs(200))
      << "values that nobody asked for do not count";
  range.max_bytes = 1;
  EXPECT_THAT(catalog_->QueryMetrics("demo", range)->points, SizeIs(2));
  range.thinned = false;
  EXPECT_THAT(catalog_->QueryMetrics("demo", range)->points, SizeIs(1));
}

TEST_F(CatalogTest, BatchSentAgainIsDropped) {
  const AttemptKey attempt = Running("demo");
  ASSERT_TRUE(catalog_->PutMetrics(attempt, 1, {Point(1, 0.5)}).ok());
  ASSERT_TRUE(catalog_->PutMetrics(attempt, 1, {Point(1, 0.5)}).ok());
  const auto points = catalog_->MetricsAfter("demo", 0, {}, 10).value().points;
  ASSERT_THAT(points, SizeIs(1));
  EXPECT_EQ(points[0].sequence(), 1);
}

TEST_F(CatalogTest, MetricsAreFilteredByKindAndRange) {
  const AttemptKey attempt = Running("demo");
  std::vector<v1::MetricPoint> points = {Point(0, 0.9, v1::METRIC_KIND_EVALUATION)};
  for (int step = 1; step <= 5; ++step) points.push_back(Point(step, 1.0 / step));
  ASSERT_TRUE(catalog_->PutMetrics(attempt, 1, points).ok());
  EXPECT_THAT(
      catalog_->MetricsAfter("demo", 0, {.kind = v1::METRIC_KIND_EVALUATION}, 10).value().points,
      SizeIs(1));
  EXPECT_THAT(catalog_->MetricsAfter("demo", 4, {}, 10).value().points, SizeIs(2));
  std::vector<int64_t> every_second;
  const auto kept = catalog_->MetricsAfter("demo", 0, {.every_steps = 2}, 10).value().points;
  for (const v1::MetricPoint& point : kept) {
    every_second.push_back(point.step());
  }
  EXPECT_THAT(every_second, ElementsAre(0, 2, 4));
  const auto range =
      catalog_
          ->QueryMetrics(
              "demo",
              {.kind = v1::METRIC_KIND_TRAINING, .start_step = 2, .end_step = 5, .limit = 2})
          .value()
          .points;
  ASSERT_THAT(range, SizeIs(2));
  EXPECT_EQ(range[0].step(), 2);
}

TEST_F(CatalogTest, ThinnedRangeHasItsFirstAndLastAndIsEven) {
  const AttemptKey attempt = Running("demo");
  std::vector<v1::MetricPoint> points;
  for (int step = 10; step <= 1000; step += step < 500 ? 1 : 50) points.push_back(Point(step, 1));
  ASSERT_TRUE(catalog_->PutMetrics(attempt, 1, points).ok());
  const auto steps = [&](int64_t start, int64_t end, int limit) {
    const auto range = catalog_
                           ->QueryMetrics("demo", {.kind = v1::METRIC_KIND_TRAINING,
                                                   .start_step = start,
                                                   .end_step = end,
                                                   .limit = limit,
                                                   .thinned = true})
                           .value()
                           .points;
    std::vector<int64_t> thinned;
    for (const v1::MetricPoint& point : range) thinned.push_back(point.step());
    return thinned;
  };
  EXPECT_THAT(steps(0, 0, 2), ElementsAre(10, 1000));
  EXPECT_THAT(steps(0, 0, 5), ElementsAre(10, 258, 550, 800, 1000));
  EXPECT_THAT(steps(20, 25, 10), ElementsAre(20, 21, 22, 23, 24)) << "no more than there are";
  EXPECT_THAT(steps(2000, 0, 5), IsEmpty());
}

// A week has ten million points; the cost of a thinned answer must not grow with them. Here fewer,
// written past the interface, since the test is to take seconds.
TEST_F(CatalogTest, LongHistoryIsServedThinnedAndExact) {
  constexpr int64_t kPoints = 1'000'000;
  Create("demo");
  catalog_.reset();
  {
    auto connection = Connection::Open(Path()).value();
    v1::MetricPoint point;
    (*point.mutable_values())["loss"] = 0.5;
    ASSERT_TRUE(connection->Execute("PRAGMA synchronous = OFF; BEGIN").ok());
    auto statement = connection->Prepare(
        "WITH RECURSIVE steps (step) AS (SELECT 1 UNION ALL SELECT step + 1 FROM steps WHERE step <"
        " ?1) INSERT INTO metrics (job, kind, step, attempt, tokens, time, point)"
        " SELECT 1, 1, step, 1, step, 0, ?2 FROM steps");
    ASSERT_TRUE(statement->Bind(kPoints).BindBlob(point.SerializeAsString()).Run().ok());
    ASSERT_TRUE(connection->Execute("COMMIT").ok());
  }
  Reopen();
  const absl::Time began = absl::Now();
  const auto thinned = catalog_->QueryMetrics(
      "demo", {.kind = v1::METRIC_KIND_TRAINING, .limit = 1000, .thinned = true});
  EXPECT_THAT(thinned->points, SizeIs(1000));
  EXPECT_EQ(thinned->points.front().step(), 1);
  EXPECT_EQ(thinned->points.back().step(), kPoints);
  // A scan of all takes longer; on an idle machine this takes some 20 ms.
  EXPECT_LT(absl::Now() - began, absl::Seconds(2));
  const auto tail = catalog_->QueryMetrics(
      "demo", {.kind = v1::METRIC_KIND_TRAINING, .start_step = kPoints - 9, .limit = 100});
  EXPECT_THAT(tail->points, SizeIs(10));
  EXPECT_THAT(catalog_->MetricsAfter("demo", 0, {.every_steps = 100'000}, 256).value().points,
              SizeIs(10));
  // No evaluation among so many: the streams of a watcher ask for this.
  EXPECT_THAT(
      catalog_->MetricsAfter("demo", 0, {.kind = v1::METRIC_KIND_EVALUATION}, 256).value().points,
      IsEmpty());
}

TEST_F(CatalogTest, OlderAttemptCanStoreNothing) {
  const AttemptKey stale = Running("demo");
  Recovered("demo");
  EXPECT_TRUE(absl::IsAborted(catalog_->PutMetrics(stale, 1, {Point(1, 0.5)})));
  EXPECT_TRUE(absl::IsAborted(catalog_->PutCheckpoint(stale, CheckpointAt(1), true, kStart)));
  EXPECT_THAT(catalog_->MetricsAfter("demo", 0, {}, 10).value().points, IsEmpty());
  EXPECT_THAT(catalog_->ListCheckpoints("demo").value(), IsEmpty());
}

TEST_F(CatalogTest, AttemptOfAnEndedJobCanStoreNothing) {
  const AttemptKey attempt = Running("demo");
  ASSERT_TRUE(catalog_->UpdateJob("demo", kStart, To(v1::JOB_STATE_SUCCEEDED)).ok());
  EXPECT_TRUE(absl::IsAborted(catalog_->PutMetrics(attempt, 1, {Point(1, 0.5)})));
}

TEST_F(CatalogTest, CheckpointsKnowTheLatestAndTheBest) {
  const AttemptKey attempt = Running("demo");
  ASSERT_TRUE(catalog_->PutCheckpoint(attempt, CheckpointAt(0, 0.62), true, kStart).ok());
  ASSERT_TRUE(catalog_->PutCheckpoint(attempt, CheckpointAt(10, 0.3), true, kStart).ok());
  ASSERT_TRUE(catalog_->PutCheckpoint(attempt, CheckpointAt(20), true, kStart).ok());
  const auto all = catalog_->ListCheckpoints("demo").value();
  ASSERT_THAT(all, SizeIs(3));
  EXPECT_EQ(all[1].name(), "jobs/demo/checkpoints/step-000000010");
  EXPECT_TRUE(all[1].best());
  EXPECT_FALSE(all[0].best() || all[2].best());
  EXPECT_FALSE(all[2].has_fvu());
  EXPECT_EQ(all[2].files(0).name(), "config.json");
  const JobRecord job = catalog_->GetJob("demo").value();
  EXPECT_EQ(job.job.latest_checkpoint(), "jobs/demo/checkpoints/step-000000020");
  EXPECT_EQ(job.job.best_checkpoint(), "jobs/demo/checkpoints/step-000000010");
  const auto events = catalog_->ListEvents("demo", job.job.revision() - 1, 1).value();
  EXPECT_EQ(events[0].reason(), "CHECKPOINT");
  EXPECT_EQ(events[0].from_state(), events[0].to_state());
}

TEST_F(CatalogTest, OnlyANewScheduledCheckpointResetsTheCountOfRecoveries) {
  AttemptKey attempt = Running("demo");
  ASSERT_TRUE(catalog_->PutCheckpoint(attempt, CheckpointAt(10), true, kStart).ok());
  ASSERT_TRUE(catalog_
                  ->UpdateJob("demo", kStart,
                              [](const JobRecord&) -> absl::StatusOr<JobChange> {
                                return JobChange{.reason = "TEST", .recoveries = 4};
                              })
                  .ok());
  ASSERT_TRUE(catalog_->PutCheckpoint(attempt, CheckpointAt(10), true, kStart).ok());
  EXPECT_EQ(catalog_->GetJob("demo")->recoveries, 4);
  ASSERT_TRUE(catalog_->PutCheckpoint(attempt, CheckpointAt(15), false, kStart).ok());
  EXPECT_EQ(catalog_->GetJob("demo")->recoveries, 4);
  ASSERT_TRUE(catalog_->PutCheckpoint(attempt, CheckpointAt(20), true, kStart).ok());
  EXPECT_EQ(catalog_->GetJob("demo")->recoveries, 0);
}

TEST_F(CatalogTest, DeletedCheckpointIsGone) {
  const AttemptKey attempt = Running("demo");
  ASSERT_TRUE(catalog_->PutCheckpoint(attempt, CheckpointAt(10), true, kStart).ok());
  ASSERT_TRUE(catalog_->PutCheckpoint(attempt, CheckpointAt(20), true, kStart).ok());
  ASSERT_TRUE(catalog_->DeleteCheckpoint("demo", 10, AnyCheckpoint).ok());
  EXPECT_TRUE(absl::IsNotFound(catalog_->DeleteCheckpoint("demo", 10, AnyCheckpoint)));
  EXPECT_THAT(Steps("demo"), ElementsAre(20));
  EXPECT_TRUE(absl::IsNotFound(catalog_->GetCheckpoint("demo", 10).status()));
  EXPECT_EQ(catalog_->GetCheckpoint("demo", 20)->tokens(), 20 * 2048);
}

TEST(SqliteStatusTest, OnlyAFullDiskIsToldToMakeRoom) {
  for (const int code : {SQLITE_FULL, SQLITE_IOERR_WRITE}) {
    EXPECT_THAT(std::string(SqliteStatus(code, "x").message()), HasSubstr("make room")) << code;
  }
  for (const int code : {SQLITE_IOERR, SQLITE_IOERR_READ, SQLITE_IOERR_FSYNC}) {
    EXPECT_THAT(std::string(SqliteStatus(code, "x").message()),
                HasSubstr("disk of the data folder fails"))
        << code;
  }
}

TEST_F(CatalogTest, ActivationSetIsRegisteredOnce) {
  v1::ActivationSet set;
  set.set_name("activationSets/smollm2");
  set.set_path("/sets/smollm2");
  set.set_manifest_sha256("aa");
  set.set_layer(12);
  ASSERT_TRUE(catalog_->CreateActivationSet(set).ok());
  Reopen();
  EXPECT_EQ(catalog_->GetActivationSet("smollm2")->layer(), 12);
  EXPECT_TRUE(catalog_->CreateActivationSet(set).ok());
  set.set_manifest_sha256("bb");
  const absl::Status changed = catalog_->CreateActivationSet(set).status();
  EXPECT_TRUE(absl::IsAlreadyExists(changed));
  EXPECT_THAT(std::string(changed.message()), HasSubstr("contents have changed since"));
  set.set_path("/sets/other");
  const absl::Status elsewhere = catalog_->CreateActivationSet(set).status();
  EXPECT_TRUE(absl::IsAlreadyExists(elsewhere));
  EXPECT_THAT(std::string(elsewhere.message()), HasSubstr("with the folder /sets/smollm2;"));
  set.set_name("activationSets/another");
  ASSERT_TRUE(catalog_->CreateActivationSet(set).ok());
  EXPECT_THAT(catalog_->ListActivationSets("", 10).value(), SizeIs(2));
  EXPECT_THAT(catalog_->ListActivationSets("another", 10).value(), SizeIs(1));
  EXPECT_TRUE(absl::IsNotFound(catalog_->GetActivationSet("gone").status()));
}

v1::ActivationSet SetNamed(const std::string& id, const std::string& manifest_sha256,
                           const std::string& path = "/sets/set") {
  v1::ActivationSet set;
  set.set_name("activationSets/" + id);
  set.set_path(path);
  set.set_manifest_sha256(manifest_sha256);
  set.set_state(v1::ACTIVATION_SET_STATE_READY);
  return set;
}

NewJob JobOn(const std::string& set_id, const std::string& manifest_sha256,
             const std::string& id = "job") {
  NewJob job = Named(id);
  job.resolved_spec.set_activation_set(set_id);
  job.resolved_spec.set_activation_set_sha256(manifest_sha256);
  return job;
}

TEST_F(CatalogTest, MakesAJobOnlyForTheSetThatItWasPlannedFor) {
  EXPECT_TRUE(absl::IsFailedPrecondition(catalog_->CreateJob(JobOn("set", "aa"), kStart).status()));
  ASSERT_TRUE(catalog_->CreateActivationSet(SetNamed("set", "bb")).ok());
  const absl::Status other = catalog_->CreateJob(JobOn("set", "aa"), kStart).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(other));
  EXPECT_THAT(std::string(other.message()), HasSubstr("has other contents (manifest bb)"));
  EXPECT_TRUE(absl::IsNotFound(catalog_->GetJob("job").status()));
  EXPECT_TRUE(catalog_->CreateJob(JobOn("set", "bb"), kStart).ok());
}

// A FAILED job that was retried after its set's id was given to other data trained on those.
TEST_F(CatalogTest, RefusesToQueueAJobAgainOnceItsSetHasChanged) {
  ASSERT_TRUE(catalog_->CreateActivationSet(SetNamed("set", "aa")).ok());
  ASSERT_TRUE(catalog_->CreateJob(JobOn("set", "aa"), kStart).ok());
  ASSERT_TRUE(catalog_->UpdateJob("job", kStart, To(v1::JOB_STATE_FAILED)).ok());
  ASSERT_TRUE(catalog_->DeleteActivationSet("set").ok());
  const absl::Status gone = catalog_->UpdateJob("job", kStart, To(v1::JOB_STATE_QUEUED)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(gone));
  EXPECT_THAT(std::string(gone.message()), HasSubstr("was deleted"));
  ASSERT_TRUE(catalog_->CreateActivationSet(SetNamed("set", "bb")).ok());
  const absl::Status other = catalog_->UpdateJob("job", kStart, To(v1::JOB_STATE_QUEUED)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(other));
  EXPECT_THAT(std::string(other.message()), HasSubstr("has other contents"));
  EXPECT_EQ(catalog_->GetJob("job")->job.state(), v1::JOB_STATE_FAILED);
  EXPECT_TRUE(
      absl::IsFailedPrecondition(catalog_->SetOfJob(catalog_->GetJob("job")->job).status()));

  ASSERT_TRUE(catalog_->DeleteActivationSet("set").ok());
  ASSERT_TRUE(catalog_->CreateActivationSet(SetNamed("set", "aa", "/sets/copy")).ok());
  EXPECT_TRUE(catalog_->UpdateJob("job", kStart, To(v1::JOB_STATE_QUEUED)).ok());
}

TEST_F(CatalogTest, AJobWithoutASumFitsASetRegisteredBeforeIt) {
  v1::ActivationSet set = SetNamed("set", "aa");
  set.mutable_register_time()->set_seconds(absl::ToUnixSeconds(kStart));
  ASSERT_TRUE(catalog_->CreateActivationSet(set).ok());
  ASSERT_TRUE(catalog_->CreateJob(JobOn("set", ""), kStart).ok());
  ASSERT_TRUE(catalog_->UpdateJob("job", kStart, To(v1::JOB_STATE_FAILED)).ok());
  ASSERT_TRUE(catalog_->UpdateJob("job", kStart, To(v1::JOB_STATE_QUEUED)).ok());
  ASSERT_TRUE(catalog_->UpdateJob("job", kStart, To(v1::JOB_STATE_FAILED)).ok());

  ASSERT_TRUE(catalog_->DeleteActivationSet("set").ok());
  set.mutable_register_time()->set_nanos(1);
  ASSERT_TRUE(catalog_->CreateActivationSet(set).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      catalog_->UpdateJob("job", kStart, To(v1::JOB_STATE_QUEUED)).status()));
}

TEST_F(CatalogTest, AliasesOfASetShareItsState) {
  ASSERT_TRUE(catalog_->CreateActivationSet(SetNamed("set", "aa")).ok());
  ASSERT_TRUE(catalog_->CreateActivationSet(SetNamed("alias", "aa")).ok());
  ASSERT_TRUE(catalog_->CreateActivationSet(SetNamed("stale", "bb")).ok());
  ASSERT_TRUE(catalog_->CreateActivationSet(SetNamed("other", "aa", "/sets/other")).ok());
  ASSERT_TRUE(catalog_->CreateJob(JobOn("alias", "aa"), kStart).ok());
  ASSERT_TRUE(catalog_
                  ->UpdateActivationSet("set",
                                        [](v1::ActivationSet& set) {
                                          set.set_state(v1::ACTIVATION_SET_STATE_QUARANTINED);
                                          set.add_problems("damaged");
                                          return absl::OkStatus();
                                        })
                  .ok());
  EXPECT_EQ(catalog_->GetActivationSet("alias")->problems(0), "damaged");
  EXPECT_EQ(catalog_->GetActivationSet("alias")->name(), "activationSets/alias");
  EXPECT_THAT(catalog_->QuarantinedSets().value(), SizeIs(2));
  EXPECT_THAT(catalog_->JobsUsingSet("set").value(), ElementsAre("job"));
  EXPECT_THAT(catalog_->JobsUsingSet("other").value(), IsEmpty());
}

TEST_F(CatalogTest, AVerdictIsNotThatOfACheckpointPublishedSince) {
  const AttemptKey attempt = Running("job");
  ASSERT_TRUE(catalog_->PutCheckpoint(attempt, CheckpointAt(10), true, kStart).ok());
  const v1::Checkpoint looked_at = catalog_->GetCheckpoint("job", 10).value();
  v1::Checkpoint again = CheckpointAt(10);
  again.mutable_files(0)->set_sha256("another");
  ASSERT_TRUE(catalog_->PutCheckpoint(attempt, again, true, kStart).ok());
  ASSERT_TRUE(catalog_->PutVerdict("job", looked_at, "damaged", kStart).ok());
  EXPECT_EQ(catalog_->GetCheckpoint("job", 10)->damage(), "");

  const v1::Checkpoint current = catalog_->GetCheckpoint("job", 10).value();
  ASSERT_TRUE(catalog_->PutVerdict("job", current, "damaged", kStart).ok());
  EXPECT_EQ(catalog_->GetCheckpoint("job", 10)->damage(), "damaged");
  ASSERT_TRUE(catalog_->PutCheckpoint(attempt, CheckpointAt(10), true, kStart).ok());
  EXPECT_EQ(catalog_->GetCheckpoint("job", 10)->damage(), "") << "published anew";
}

// Two looks at once: the one that began first had read the file before it was damaged, and took the
// mark off.
TEST_F(CatalogTest, AVerdictIsLiftedOnlyByALookThatBeganAfterIt) {
  const AttemptKey attempt = Running("job");
  ASSERT_TRUE(catalog_->PutCheckpoint(attempt, CheckpointAt(10), true, kStart).ok());
  const v1::Checkpoint before = catalog_->GetCheckpoint("job", 10).value();
  const auto at = [](int seconds) { return kStart + absl::Seconds(seconds); };
  EXPECT_TRUE(catalog_->PutVerdict("job", before, "damaged", at(1)).value());
  EXPECT_FALSE(catalog_->PutVerdict("job", before, "", at(2)).value());
  EXPECT_EQ(catalog_->GetCheckpoint("job", 10)->damage(), "damaged");

  const v1::Checkpoint after = catalog_->GetCheckpoint("job", 10).value();
  EXPECT_TRUE(catalog_->PutVerdict("job", after, "", at(3)).value());
  EXPECT_EQ(catalog_->GetCheckpoint("job", 10)->damage(), "");
  ASSERT_TRUE(catalog_->PutCheckpoint(attempt, CheckpointAt(10), true, at(4)).ok());
  EXPECT_FALSE(catalog_->PutVerdict("job", after, "damaged", at(5)).value())
      << "published again since, with the same files";
  EXPECT_FALSE(catalog_->PutVerdict("gone", after, "damaged", at(5)).value());
}

// One job on its way out made these fail: the scrubber stopped and the alarm went quiet.
TEST_F(CatalogTest, AJobOnItsWayOutHidesNoOtherJobsDamage) {
  for (const char* id : {"leaving", "staying"}) {
    const AttemptKey attempt = Running(id);
    ASSERT_TRUE(catalog_->PutCheckpoint(attempt, CheckpointAt(10), true, kStart).ok());
    const v1::Checkpoint checkpoint = catalog_->GetCheckpoint(id, 10).value();
    ASSERT_TRUE(catalog_->PutVerdict(id, checkpoint, "damaged", kStart).value());
    ASSERT_TRUE(catalog_->UpdateJob(id, kStart, To(v1::JOB_STATE_SUCCEEDED)).ok());
  }
  const auto any = [](const JobRecord&) { return absl::OkStatus(); };
  ASSERT_TRUE(catalog_->DeleteJob("leaving", any).ok());
  const auto damaged = catalog_->DamagedCheckpoints(10);
  ASSERT_TRUE(damaged.ok()) << damaged.status();
  ASSERT_THAT(*damaged, SizeIs(1));
  EXPECT_EQ(damaged->at(0).name(), "jobs/staying/checkpoints/step-000000010");
  const auto due = catalog_->UnverifiedCheckpoints(kStart + absl::Hours(1), 10);
  ASSERT_TRUE(due.ok()) << due.status();
  EXPECT_THAT(*due, SizeIs(1));
}

TEST_F(CatalogTest, CheckpointsAreDueInTheOrderOfTheirLastLook) {
  const AttemptKey attempt = Running("job");
  for (const int64_t step : {10, 20, 30}) {
    ASSERT_TRUE(
        catalog_->PutCheckpoint(attempt, CheckpointAt(step), true, kStart + absl::Seconds(step))
            .ok());
  }
  const v1::Checkpoint first = catalog_->GetCheckpoint("job", 10).value();
  ASSERT_TRUE(catalog_->PutVerdict("job", first, "", kStart + absl::Seconds(25)).ok());
  const std::vector<v1::Checkpoint> due =
      catalog_->UnverifiedCheckpoints(kStart + absl::Seconds(30), 10).value();
  ASSERT_THAT(due, SizeIs(2));
  EXPECT_EQ(due[0].step(), 20);
  EXPECT_EQ(due[1].step(), 10);
  EXPECT_THAT(catalog_->UnverifiedCheckpoints(kStart + absl::Hours(1), 1).value(), SizeIs(1));
}

TEST_F(CatalogTest, MissingJobIsNotFoundEverywhere) {
  EXPECT_TRUE(absl::IsNotFound(catalog_->GetJob("gone").status()));
  EXPECT_TRUE(absl::IsNotFound(catalog_->ListEvents("gone", 0, 1).status()));
  EXPECT_TRUE(absl::IsNotFound(catalog_->ListCheckpoints("gone").status()));
  EXPECT_TRUE(absl::IsNotFound(catalog_->MetricsAfter("gone", 0, {}, 1).status()));
  EXPECT_TRUE(
      absl::IsNotFound(catalog_->UpdateJob("gone", kStart, To(v1::JOB_STATE_CANCELLED)).status()));
}

TEST_F(CatalogTest, FileThatIsNoDatabaseIsDataLoss) {
  catalog_.reset();
  std::filesystem::remove(Path() + "-wal");
  std::filesystem::remove(Path() + "-shm");
  std::FILE* file = std::fopen(Path().c_str(), "wb");
  std::fputs(std::string(8192, 'x').c_str(), file);
  std::fclose(file);
  EXPECT_TRUE(absl::IsDataLoss(Catalog::Open(Path()).status()));
}

}  // namespace
}  // namespace lorsa::server
