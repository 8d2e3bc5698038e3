#include "server/catalog/catalog_test_fixture.h"

namespace lorsa::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

}  // namespace
}  // namespace lorsa::server
