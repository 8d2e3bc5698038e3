// Checkpoints that a worker without the server's disk sends, over real calls.
#include "server/services/staged_uploads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "base/sha256.h"
#include "server/services/job_services_test_fixture.h"
#include "server/services/upload_test_client.h"

namespace lorsa::server {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kFolder[] = "step-000000010";
constexpr char kWeights[] = "lorsa.safetensors";

class StagedUploadsTest : public JobServicesTest {
 protected:
  StagedUploadsTest() : stub_(v1::WorkerService::NewStub(channel_)) {}

  // Runs job demo; calls are made with its attempt's token from now on.
  std::unique_ptr<WorkerClient> Run() {
    auto worker = RunJob("demo");
    token_ = Launched().bootstrap.token();
    return worker;
  }

  std::string Staging(int attempt = 1) const { return Layout().StagingFolder("demo", attempt); }

  static v1::StagedFileStart StartOf(const std::string& file, const std::string& bytes) {
    v1::StagedFileStart start;
    start.set_folder(kFolder);
    start.set_file(file);
    start.set_size_bytes(static_cast<int64_t>(bytes.size()));
    start.set_sha256(Sha256Hex(bytes));
    return start;
  }

  grpc::Status Send(const v1::StagedFileStart& start, const std::string& data,
                    v1::UploadedFile* answer = nullptr, bool crc_error = false) {
    grpc::ClientContext context;
    Authorize(context);
    v1::UploadedFile response;
    const auto writer = stub_->UploadStagedFile(&context, &response);
    const grpc::Status status = SendFile(*writer, start, data, crc_error);
    if (answer != nullptr) *answer = response;
    return status;
  }
  grpc::Status SendWhole(const std::string& file, const std::string& bytes) {
    return Send(StartOf(file, bytes), bytes);
  }

  v1::Upload Upload() {
    grpc::ClientContext context;
    Authorize(context);
    v1::GetStagedUploadRequest request;
    request.set_folder(kFolder);
    v1::Upload upload;
    EXPECT_TRUE(stub_->GetStagedUpload(&context, request, &upload).ok());
    return upload;
  }

  grpc::Status StoreRollbacks(const std::string& contents) {
    grpc::ClientContext context;
    Authorize(context);
    v1::StoreRollbacksRequest request;
    request.set_contents(contents);
    google::protobuf::Empty nothing;
    return stub_->StoreRollbacks(&context, request, &nothing);
  }

  // Of the checkpoint that the job starts from; `contents` gets what comes.
  grpc::Status ReadInitial(const std::string& file, int64_t offset, std::string& contents) {
    grpc::ClientContext context;
    Authorize(context);
    v1::ReadInitialCheckpointRequest request;
    request.set_file(file);
    request.set_offset(offset);
    const auto reader = stub_->ReadInitialCheckpoint(&context, request);
    contents.clear();
    v1::FileChunk chunk;
    while (reader->Read(&chunk)) contents += chunk.data();
    return reader->Finish();
  }

  void Authorize(grpc::ClientContext& context) const {
    if (!token_.empty()) context.AddMetadata("authorization", "Bearer " + token_);
  }

  std::string Contents(const std::string& path) { return ReadFile(fs_, path, 1 << 20).value(); }

  std::unique_ptr<v1::WorkerService::Stub> stub_;
  std::string token_;
};

TEST_F(StagedUploadsTest, WhatWasSentIsPublishedAsWhatWasWrittenHere) {
  auto worker = Run();
  const std::map<std::string, std::string> files = {
      {kWeights, std::string(70'000, 'w')}, {"config.json", "{}"}, {"state.json", "{}"}};
  std::string listed;
  for (const auto& [name, bytes] : files) {
    ASSERT_TRUE(SendWhole(name, bytes).ok());
    absl::StrAppend(&listed, listed.empty() ? "" : ",", "\"", name, "\":{\"bytes\":", bytes.size(),
                    ",\"sha256\":\"", Sha256Hex(bytes), "\"}");
  }
  const std::string manifest = absl::StrCat("{\"files\":{", listed, "}}");
  ASSERT_TRUE(SendWhole("manifest.json", manifest).ok());

  v1::WorkerMessage staged;
  staged.mutable_checkpoint()->set_folder(kFolder);
  staged.mutable_checkpoint()->set_step(10);
  staged.mutable_checkpoint()->set_manifest_sha256(Sha256Hex(manifest));
  worker->Say(staged);
  EXPECT_EQ(worker->Hear().checkpoint_published().error(), "");
  EXPECT_EQ(Get("demo").latest_checkpoint(), "jobs/demo/checkpoints/step-000000010");
  EXPECT_EQ(Contents(JoinPath(Layout().CheckpointFolder("demo", 10), kWeights)),
            files.at(kWeights));
  EXPECT_TRUE(std::filesystem::is_empty(Staging()));
}

TEST_F(StagedUploadsTest, TheWeightsThatAJobStartsFromAreReadFromAnyByteOn) {
  auto worker = Run();
  std::string contents;
  EXPECT_EQ(ReadInitial(kWeights, 0, contents).error_code(), grpc::StatusCode::NOT_FOUND);

  const std::string folder = Layout().InitialCheckpointFolder("demo");
  const std::string weights(70'000, 'w');
  const std::string manifest =
      absl::StrCat("{\"files\":{\"", kWeights, "\":{\"bytes\":", weights.size(), ",\"sha256\":\"",
                   Sha256Hex(weights), "\"}}}");
  ASSERT_TRUE(fs_.CreateDirectories(folder).ok());
  ASSERT_TRUE(WriteFileAtomically(fs_, JoinPath(folder, kWeights), weights).ok());
  ASSERT_TRUE(WriteFileAtomically(fs_, JoinPath(folder, "manifest.json"), manifest).ok());
  EXPECT_TRUE(ReadInitial(kWeights, 0, contents).ok());
  EXPECT_EQ(contents, weights);
  EXPECT_TRUE(ReadInitial(kWeights, 60'000, contents).ok());
  EXPECT_EQ(contents.size(), 10'000u);
  EXPECT_TRUE(ReadInitial("manifest.json", 0, contents).ok());
  EXPECT_EQ(contents, manifest);
  for (const char* other : {"", "state.json", "../../../lock", "../initial_checkpoint/config"}) {
    EXPECT_EQ(ReadInitial(other, 0, contents).error_code(), grpc::StatusCode::NOT_FOUND) << other;
  }

  ASSERT_TRUE(WriteFileAtomically(fs_, JoinPath(folder, kWeights), "other").ok());
  EXPECT_EQ(ReadInitial(kWeights, 0, contents).error_code(), grpc::StatusCode::ABORTED);
}

// A checkpoint that took long to send ended its attempt as silent or stuck, in the middle.
TEST_F(StagedUploadsTest, APieceThatCameIsASignOfLife) {
  auto worker = Run();
  const std::string weights(30'000, 'w');
  Advance(options_.silence_timeout);
  Send(StartOf(kWeights, weights), weights.substr(0, 10'000));
  Advance(options_.silence_timeout);
  Poll();
  EXPECT_EQ(Get("demo").state(), v1::JOB_STATE_RUNNING);
}

TEST_F(StagedUploadsTest, OnlyTheAttemptsTokenOpensTheFolder) {
  auto worker = Run();
  const std::string good = token_;
  for (const char* token : {"", "not-a-token"}) {
    token_ = token;
    EXPECT_EQ(SendWhole(kWeights, "w").error_code(), grpc::StatusCode::UNAUTHENTICATED) << token;
    EXPECT_EQ(StoreRollbacks("{}").error_code(), grpc::StatusCode::UNAUTHENTICATED) << token;
  }
  token_ = good;
  launcher_.EndLast();
  Poll();
  for (const grpc::Status& stale : {SendWhole(kWeights, "w"), StoreRollbacks("{}")}) {
    EXPECT_EQ(stale.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(ReasonIn(stale), "STALE_ATTEMPT");
  }
  EXPECT_TRUE(std::filesystem::is_empty(Staging()));
  EXPECT_FALSE(std::filesystem::exists(Layout().RollbacksFile("demo")));
}

TEST_F(StagedUploadsTest, AnUploadGoesOnWhereItEnded) {
  auto worker = Run();
  const std::string bytes(70'000, 'x');
  v1::StagedFileStart start = StartOf(kWeights, bytes);
  v1::UploadedFile answer;
  ASSERT_TRUE(Send(start, bytes.substr(0, 30'000), &answer).ok());
  EXPECT_FALSE(answer.complete());
  ASSERT_EQ(Upload().files_size(), 1);
  EXPECT_EQ(Upload().files(0).received_bytes(), 30'000);

  const grpc::Status elsewhere = Send(start, bytes);  // from byte 0
  EXPECT_EQ(elsewhere.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(ReasonIn(elsewhere), "OFFSET_MISMATCH");
  start.set_offset(30'000);
  ASSERT_TRUE(Send(start, bytes.substr(30'000), &answer).ok());
  EXPECT_TRUE(answer.complete());
  EXPECT_EQ(Contents(JoinPath(Staging(), absl::StrCat(kFolder, "/", kWeights))), bytes);
  // The answer was lost and the worker asks again.
  EXPECT_TRUE(Send(start, "", &answer).ok());
  EXPECT_TRUE(answer.complete());
}

TEST_F(StagedUploadsTest, BytesThatDoNotMatchAreDropped) {
  auto worker = Run();
  const std::string bytes(30'000, 'x');
  const v1::StagedFileStart start = StartOf(kWeights, bytes);
  EXPECT_EQ(Send(start, bytes, nullptr, /*crc_error=*/true).error_code(),
            grpc::StatusCode::DATA_LOSS);
  const grpc::Status wrong = Send(start, std::string(30'000, 'y'));
  EXPECT_EQ(wrong.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_THAT(wrong.error_message(), HasSubstr("sha256"));
  EXPECT_THAT(Upload().files(), IsEmpty());
  EXPECT_EQ(Send(start, bytes + "more").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(StagedUploadsTest, HostileUploadsAreRefusedByField) {
  auto worker = Run();
  const int64_t estimate = training_->MaxUploadBytes(Get("demo").resolved_spec(), kWeights).value();
  const auto refused = [&](const std::string& field, auto change) {
    v1::StagedFileStart start = StartOf(kWeights, "w");
    change(start);
    const grpc::Status status = Send(start, "");
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << start.DebugString();
    EXPECT_EQ(DetailOf<google::rpc::BadRequest>(status).field_violations(0).field(), field);
  };
  for (const char* file : {"", "../lorsa.safetensors", "upload-lorsa.safetensors", "weights.pt"}) {
    refused("file", [&](auto& start) { start.set_file(file); });
  }
  for (const char* folder : {"", "..", "step-10", "step-000000010/x", "step-00000000x"}) {
    refused("folder", [&](auto& start) { start.set_folder(folder); });
  }
  refused("size_bytes", [](auto& start) { start.set_size_bytes(0); });
  refused("size_bytes", [&](auto& start) { start.set_size_bytes(estimate + 1); });
  refused("size_bytes", [](auto& start) {
    start.set_file("config.json");
    start.set_size_bytes((1 << 20) + 1);
  });
  refused("sha256", [](auto& start) { start.set_sha256("abc"); });
  refused("offset", [](auto& start) { start.set_offset(2); });
  EXPECT_TRUE(std::filesystem::is_empty(Staging()));
}

TEST_F(StagedUploadsTest, AStepStagedAgainReplacesItsFilesAndAnotherDropsThem) {
  auto worker = Run();
  ASSERT_TRUE(SendWhole("state.json", "{}").ok());
  ASSERT_TRUE(SendWhole("state.json", "{\"evaluated\":1}").ok());
  EXPECT_EQ(Contents(JoinPath(Staging(), absl::StrCat(kFolder, "/state.json"))),
            "{\"evaluated\":1}");
  v1::StagedFileStart next = StartOf("state.json", "{}");
  next.set_folder("step-000000020");
  ASSERT_TRUE(Send(next, "{}").ok());
  EXPECT_THAT(Upload().files(), IsEmpty());
}

TEST_F(StagedUploadsTest, WhatDoesNotFitBesideTheReserveIsRefused) {
  auto worker = Run();
  StagedUploads uploads(*catalog_, kinds_, fs_, Layout(), int64_t{1} << 60);
  const absl::Status status = uploads.Receive({"demo", 1}, StartOf(kWeights, "w")).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

// A folder made anew would outlive the job that was deleted.
TEST_F(StagedUploadsTest, AFolderThatWasRemovedIsNotMadeAnew) {
  auto worker = Run();
  std::filesystem::remove_all(Layout().JobFolder("demo"));
  EXPECT_EQ(SendWhole(kWeights, "w").error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_FALSE(std::filesystem::exists(Layout().JobFolder("demo")));
}

TEST_F(StagedUploadsTest, RollbacksAreReplacedWhole) {
  auto worker = Run();
  ASSERT_TRUE(StoreRollbacks("first, the longer").ok());
  ASSERT_TRUE(StoreRollbacks("second").ok());
  EXPECT_EQ(Contents(Layout().RollbacksFile("demo")), "second");
  for (const std::string& bad : {std::string(), std::string((1 << 20) + 1, 'x')}) {
    EXPECT_EQ(StoreRollbacks(bad).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_EQ(Contents(Layout().RollbacksFile("demo")), "second");
}

}  // namespace
}  // namespace lorsa::server
