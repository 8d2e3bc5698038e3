#include "server/kinds/training_estimate.h"

#include "job_spec/resolve.h"
#include "server/jobs/jobs_test_fixture.h"

namespace lorsa::server {
namespace {

class TrainingEstimateTest : public JobsTest {
 protected:
  TrainingEstimateTest() {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"pb(
          name: "activationSets/l12"
          d_model: 576
          context: 256
          element_type: ELEMENT_TYPE_BF16
          mean_input_norm: 20
          mean_output_norm: 2
          sequences: 4096
          held_out_sequences: 128
          has_attention_weights: true
          attention { n_heads: 9 n_kv_heads: 3 d_head: 64 attn_scale: 8 })pb",
        &set_));
    EXPECT_TRUE(catalog_->CreateActivationSet(set_).ok());
  }

  v1::TrainingSpec Resolved(const std::string& text) {
    v1::TrainingSpec spec;
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString("activation_set: 'l12' " + text, &spec));
    ResolvedSpec resolved = ResolveTrainingSpec(spec, set_, {.cores = 2, .has_bf16 = true});
    EXPECT_TRUE(resolved.ok());
    return resolved.spec;
  }
  static v1::JobSpec AsJob(v1::TrainingSpec training) {
    v1::JobSpec spec;
    *spec.mutable_training() = std::move(training);
    return spec;
  }
  v1::JobEstimate Estimate(const std::string& text) {
    return EstimateTrainingResources(*catalog_, Resolved(text)).value();
  }
  std::optional<absl::Duration> Time(const std::string& text) {
    return EstimateTrainingTime(*catalog_, Resolved(text)).value();
  }
  // Runs a job that ends well after `took`.
  void Succeed(const std::string& id, const std::string& text, absl::Duration took) {
    ASSERT_TRUE(manager_->CreateJob({.id = id, .resolved_spec = AsJob(Resolved(text))}).ok());
    FakeWorker worker = LaunchAndConnect();
    Advance(took);
    ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
    ASSERT_EQ(State(id), v1::JOB_STATE_SUCCEEDED);
  }

  v1::ActivationSet set_;
};

TEST_F(TrainingEstimateTest, MemoryAndDiskGrowWithTheHeads) {
  const v1::JobEstimate small = Estimate("expansion_factor: 4"),
                        large = Estimate("expansion_factor: 8");
  EXPECT_GT(small.memory_bytes(), 100 << 20);
  EXPECT_GT(large.memory_bytes(), 5 * small.memory_bytes() / 4);
  EXPECT_GT(large.disk_bytes(), 5 * small.disk_bytes() / 4);
  EXPECT_THAT(large.memory_parts(), ::testing::HasSubstr("weights"));
}

TEST_F(TrainingEstimateTest, TimeIsUnknownUntilALikeJobSucceeded) {
  EXPECT_FALSE(Time("tokens: 204800").has_value());
  Succeed("fp32", "tokens: 204800 precision: PRECISION_FP32", absl::Seconds(500));
  EXPECT_FALSE(Time("tokens: 204800").has_value());
  Succeed("bf16", "tokens: 204800", absl::Seconds(100));
  EXPECT_NEAR(absl::ToDoubleSeconds(*Time("tokens: 204800")), 100, 1e-6);
  EXPECT_NEAR(absl::ToDoubleSeconds(*Time("tokens: 409600")), 200, 1e-6);
}

TEST_F(TrainingEstimateTest, AJobThatWasInterruptedSaysNothingAboutTime) {
  ASSERT_TRUE(manager_->CreateJob({.id = "lost", .resolved_spec = AsJob(Resolved(""))}).ok());
  LaunchAndConnect();
  launcher_.EndLast();
  Poll();
  Advance(absl::Hours(1));
  FakeWorker worker = LaunchAndConnect();
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  EXPECT_FALSE(Time("").has_value());
}

TEST_F(TrainingEstimateTest, ASetThatIsGoneIsNamed) {
  v1::TrainingSpec spec = Resolved("");
  spec.set_activation_set("other");
  EXPECT_THAT(
      EstimateTrainingResources(*catalog_, spec).status(),
      ::testing::AllOf(::testing::ResultOf([](auto& s) { return absl::IsNotFound(s); }, true),
                       ::testing::ResultOf([](auto& s) { return std::string(s.message()); },
                                           ::testing::HasSubstr("other"))));
}

}  // namespace
}  // namespace lorsa::server
