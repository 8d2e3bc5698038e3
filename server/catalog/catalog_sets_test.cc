#include "server/catalog/catalog_test_fixture.h"

namespace lorsa::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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
  job.resolved_spec.mutable_training()->set_activation_set(set_id);
  job.resolved_spec.mutable_training()->set_activation_set_sha256(manifest_sha256);
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

}  // namespace
}  // namespace lorsa::server
