// Jobs that start from the weights of a checkpoint, over the real RPC.
#include <google/protobuf/text_format.h>

#include "server/services/job_services_test_fixture.h"
#include "trainer/config/checkpoint_config.h"

namespace lorsa::server {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class InitialCheckpointTest : public JobServicesTest {
 protected:
  InitialCheckpointTest() { EXPECT_TRUE(Import("imported").ok()); }

  // As CheckpointService does, of weights for the layer of the set.
  absl::StatusOr<v1::Checkpoint> Import(const std::string& id) {
    const std::string config =
        trainer::FormatCheckpointConfig({.lorsa = {.d_model = 576,
                                                   .n_ov_heads = 1152,
                                                   .n_qk_heads = 18,
                                                   .d_qk = 32,
                                                   .top_k = 20,
                                                   .selection = trainer::Selection::kSigned,
                                                   .attn_scale = 5,
                                                   .qk_norm = store::QkNorm{.epsilon = 1e-5}},
                                         .context = 64,
                                         .model = "model"});
    v1::Checkpoint checkpoint;
    const std::string folder = Layout().CheckpointFolder(id, 0);
    EXPECT_TRUE(fs_.CreateDirectories(folder).ok());
    for (const auto& [name, text] : std::map<std::string, std::string>{
             {"config.json", config}, {"lorsa.safetensors", "weights"}, {"manifest.json", "{}"}}) {
      EXPECT_TRUE(WriteFileAtomically(fs_, JoinPath(folder, name), text).ok());
      v1::CheckpointFile& file = *checkpoint.add_files();
      file.set_name(name);
      file.set_size_bytes(static_cast<int64_t>(text.size()));
      file.set_sha256(Sha256Hex(text));
    }
    return catalog_->ImportCheckpoint({.id = id}, checkpoint, now_);
  }

  static v1::CreateJobRequest Request(const std::string& id, const std::string& checkpoint,
                                      const std::string& more = "") {
    v1::CreateJobRequest request;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("job_id: '", id,
                     "' request_id: 'r' spec { training { activation_set: 'smollm2' ",
                     "initial_checkpoint: 'jobs/", checkpoint, "' ", more, " } }"),
        &request));
    return request;
  }
  static std::vector<std::string> FieldsIn(const grpc::Status& status) {
    const auto bad_request = DetailOf<google::rpc::BadRequest>(status);
    std::vector<std::string> fields;
    for (const auto& v : bad_request.field_violations()) fields.push_back(v.field());
    return fields;
  }
  bool HasCopy(const std::string& id) {
    return fs_.Exists(JoinPath(Layout().InitialCheckpointFolder(id), "lorsa.safetensors")).value();
  }

  v1::Job job_;
};

TEST_F(InitialCheckpointTest, ResolvesTheNameAndTakesTheLorsaFromConfigJson) {
  const auto request = Request("next", "imported/checkpoints/latest", "seed: 3");
  ASSERT_TRUE(CreateJob(request, job_).ok());
  EXPECT_EQ(job_.spec().training().initial_checkpoint(), "jobs/imported/checkpoints/latest");
  const v1::TrainingSpec& spec = job_.resolved_spec().training();
  EXPECT_EQ(spec.initial_checkpoint(), "jobs/imported/checkpoints/step-000000000");
  EXPECT_EQ(spec.initialization(), v1::INITIALIZATION_CHECKPOINT);
  EXPECT_EQ(spec.n_ov_heads(), 1152);
  EXPECT_EQ(spec.d_qk(), 32);
  EXPECT_EQ(spec.attn_scale(), 5);
  EXPECT_EQ(spec.qk_norm().epsilon(), 1e-5);
  EXPECT_EQ(spec.top_k(), 20);
  EXPECT_EQ(spec.selection(), v1::SELECTION_SIGNED);
  EXPECT_TRUE(HasCopy("next"));
}

TEST_F(InitialCheckpointTest, WhatTheWeightsFixIsRefusedByField) {
  const grpc::Status status = CreateJob(
      Request("next", "imported/checkpoints/latest", "d_qk: 64 seed: 3 learning_rate: 7"), job_);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(FieldsIn(status),
              UnorderedElementsAre("spec.training.d_qk", "spec.training.learning_rate"));
}

TEST_F(InitialCheckpointTest, OneThatIsNotThereIsNotFoundAndAWrongNameIsRefused) {
  for (const char* name : {"gone/checkpoints/latest", "imported/checkpoints/best",
                           "imported/checkpoints/step-000000001"}) {
    EXPECT_EQ(CreateJob(Request("next", name), job_).error_code(), grpc::StatusCode::NOT_FOUND)
        << name;
  }
  EXPECT_THAT(FieldsIn(CreateJob(Request("next", "imported"), job_)),
              UnorderedElementsAre("spec.training.initial_checkpoint"));
}

TEST_F(InitialCheckpointTest, ADamagedOneIsRefused) {
  const std::string config = JoinPath(Layout().CheckpointFolder("imported", 0), "config.json");
  ASSERT_TRUE(WriteFileAtomically(fs_, config, "{}").ok());
  const grpc::Status status = CreateJob(Request("next", "imported/checkpoints/latest"), job_);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonIn(status), "DAMAGED_CHECKPOINT");
  EXPECT_THAT(status.error_message(), HasSubstr("config.json"));
}

TEST_F(InitialCheckpointTest, TheSameRequestGivesTheSameJobEvenWhenTheOtherIsGone) {
  const auto request = Request("next", "imported/checkpoints/latest");
  ASSERT_TRUE(CreateJob(request, job_).ok());
  ASSERT_TRUE(manager_->DeleteJob("imported", false).ok());
  while (manager_->Tidy()) {
  }
  EXPECT_TRUE(CreateJob(request, job_).ok());
  EXPECT_TRUE(HasCopy("next"));
  EXPECT_EQ(CreateJob(Request("more", "imported/checkpoints/latest"), job_).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(InitialCheckpointTest, ValidateOnlyMakesNothing) {
  auto request = Request("next", "imported/checkpoints/latest");
  request.set_validate_only(true);
  ASSERT_TRUE(CreateJob(request, job_).ok());
  EXPECT_EQ(job_.resolved_spec().training().n_ov_heads(), 1152);
  EXPECT_GT(job_.estimate().memory_bytes(), 0);
  EXPECT_FALSE(HasCopy("next"));
}

TEST_F(InitialCheckpointTest, ASweepMayGoOverCheckpoints) {
  ASSERT_TRUE(Import("another").ok());
  v1::CreateSweepRequest request;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(sweep_id: "sweep"
           spec { activation_set: "smollm2" }
           parameters {
             field: "initial_checkpoint"
             values: "jobs/imported/checkpoints/latest"
             values: "jobs/another/checkpoints/latest"
           }
           parameters { field: "top_k" values: "8" values: "16" })pb",
      &request));
  grpc::ClientContext context;
  v1::Sweep sweep;
  ASSERT_TRUE(jobs_->CreateSweep(&context, request, &sweep).ok());
  EXPECT_EQ(Get("sweep-000").resolved_spec().training().initial_checkpoint(),
            "jobs/imported/checkpoints/step-000000000");
  EXPECT_EQ(Get("sweep-003").resolved_spec().training().initial_checkpoint(),
            "jobs/another/checkpoints/step-000000000");
  for (const char* id : {"sweep-000", "sweep-001", "sweep-002", "sweep-003"}) {
    EXPECT_TRUE(HasCopy(id)) << id;
  }
}

TEST_F(InitialCheckpointTest, AForkOfAnImportedOneSaysWhatToDoInstead) {
  v1::ForkJobRequest request;
  request.set_job_id("fork");
  request.set_checkpoint("jobs/imported/checkpoints/latest");
  grpc::ClientContext context;
  const grpc::Status status = jobs_->ForkJob(&context, request, &job_);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonIn(status), "IMPORTED");
  EXPECT_THAT(status.error_message(), HasSubstr("initial_checkpoint"));
}

}  // namespace
}  // namespace lorsa::server
