#include "server/catalog/catalog_test_fixture.h"

namespace lorsa::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

TEST_F(CatalogTest, AStepThatIsStoredAgainHasNoNoteOfItsDeletion) {
  const AttemptKey attempt = Running("demo");
  ASSERT_TRUE(catalog_->PutCheckpoint(attempt, CheckpointAt(10), true, kStart).ok());
  ASSERT_TRUE(catalog_->DeleteCheckpoint("demo", 10, AnyCheckpoint).ok());
  EXPECT_THAT(catalog_->RemovedCheckpoints("demo").value(), ElementsAre(10));
  ASSERT_TRUE(catalog_->PutCheckpoint(attempt, CheckpointAt(10), true, kStart).ok());
  EXPECT_THAT(catalog_->RemovedCheckpoints("demo").value(), IsEmpty());
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
  EXPECT_FALSE(catalog_->PutVerdict("gone", after, "damaged", at(4)).value());
}

// As an attempt does that went back to an earlier step.
TEST_F(CatalogTest, AVerdictIsNotOfACheckpointThatWasPublishedAgainSince) {
  const AttemptKey attempt = Running("job");
  ASSERT_TRUE(catalog_->PutCheckpoint(attempt, CheckpointAt(10), true, kStart).ok());
  const absl::Time later = kStart + absl::Seconds(1);
  const v1::Checkpoint published = catalog_->GetCheckpoint("job", 10).value();
  EXPECT_TRUE(catalog_->PutVerdict("job", published, "", later).value());
  const v1::Checkpoint seen = catalog_->GetCheckpoint("job", 10).value();
  // Of the same files, and with a clock that stood still.
  ASSERT_TRUE(catalog_->PutCheckpoint(attempt, CheckpointAt(10), true, later).ok());
  EXPECT_FALSE(catalog_->PutVerdict("job", seen, "damaged", later).value());
  EXPECT_EQ(catalog_->GetCheckpoint("job", 10)->damage(), "");
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

}  // namespace
}  // namespace lorsa::server
