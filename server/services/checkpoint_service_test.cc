#include "server/services/checkpoint_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/crc32c.h"
#include "base/sha256.h"
#include "lorsa/v1/checkpoint_service.grpc.pb.h"
#include "server/jobs/worker_sessions.h"
#include "server/services/services_test_fixture.h"

namespace lorsa::server {
namespace {

constexpr int64_t kMebibyte = 1 << 20;
const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);

// What tests check of a download.
struct Download {
  std::string data;
  int chunks = 0;
  grpc::Status status;
};

class CheckpointServiceTest : public ServicesTest {
 protected:
  CheckpointServiceTest() {
    service_ = std::make_unique<CheckpointService>(
        CheckpointServiceEnvironment{.calls = calls_,
                                     .lanes = OneLane(*executor_),
                                     .catalog = *catalog_,
                                     .fs = fs_,
                                     .layout = *layout_,
                                     .jobs = jobs_,
                                     .inspector = inspector_,
                                     .roots = ActivationRoots::Create({folder_}).value(),
                                     .now = absl::Now});
    Serve({service_.get()});
    stub_ = v1::CheckpointService::NewStub(channel_);
    for (int64_t i = 0; i < 2 * kMebibyte + 1000; ++i) {
      weights_ += static_cast<char>(i * i >> 7);
    }
  }
  void TearDown() override { StopServing(); }

  // A RUNNING job in its first attempt.
  AttemptKey RunningJob(const std::string& id) {
    EXPECT_TRUE(catalog_->CreateJob({.id = id}, kStart).ok());
    const auto become = [&](const JobChange& change) {
      EXPECT_TRUE(
          catalog_
              ->UpdateJob(id, kStart,
                          [&](const JobRecord&) { return absl::StatusOr<JobChange>(change); })
              .ok());
    };
    become({.state = v1::JOB_STATE_STARTING, .new_attempt_token_sha256 = id + "-token"});
    become({.state = v1::JOB_STATE_RUNNING});
    return {id, 1};
  }

  // Publishes a checkpoint of that step that holds `weights_`, an empty file and a link.
  void Publish(const AttemptKey& attempt, int64_t step, std::optional<double> fvu) {
    const std::string folder = layout_->CheckpointFolder(attempt.job_id, step);
    std::filesystem::create_directories(folder);
    v1::Checkpoint checkpoint;
    checkpoint.set_step(step);
    if (fvu.has_value()) checkpoint.set_fvu(*fvu);
    for (const auto& [name, contents] : {std::pair<std::string, std::string>("config.json", ""),
                                         {"lorsa.safetensors", weights_}}) {
      std::ofstream(folder + "/" + name) << contents;
      v1::CheckpointFile& file = *checkpoint.add_files();
      file.set_name(name);
      file.set_size_bytes(static_cast<int64_t>(contents.size()));
      file.set_sha256(Sha256Hex(contents));
    }
    ASSERT_TRUE(catalog_->PutCheckpoint(attempt, checkpoint, true, kStart).ok());
  }

  grpc::Status Get(const std::string& name, v1::Checkpoint& checkpoint) {
    grpc::ClientContext context;
    v1::GetCheckpointRequest request;
    request.set_name(name);
    return stub_->GetCheckpoint(&context, request, &checkpoint);
  }

  template <typename PinRequest>
  grpc::Status Pin(grpc::Status (v1::CheckpointService::Stub::*method)(grpc::ClientContext*,
                                                                       const PinRequest&,
                                                                       v1::Checkpoint*),
                   const std::string& name, v1::Checkpoint& checkpoint) {
    grpc::ClientContext context;
    PinRequest request;
    request.set_name(name);
    return (stub_.get()->*method)(&context, request, &checkpoint);
  }

  grpc::Status Delete(const std::string& name) {
    grpc::ClientContext context;
    v1::DeleteCheckpointRequest request;
    request.set_name(name);
    google::protobuf::Empty nothing;
    return stub_->DeleteCheckpoint(&context, request, &nothing);
  }

  static v1::ReadFileRequest Request(int64_t offset, int64_t limit,
                                     const std::string& file = "lorsa.safetensors") {
    v1::ReadFileRequest request;
    request.set_name("jobs/demo/checkpoints/step-000000100");
    request.set_file(file);
    request.set_offset(offset);
    request.set_limit(limit);
    return request;
  }

  Download Read(const v1::ReadFileRequest& request) {
    grpc::ClientContext context;
    auto reader = stub_->ReadFile(&context, request);
    Download download;
    for (const v1::FileChunk& chunk : ReadAll(*reader)) {
      EXPECT_EQ(chunk.offset(), request.offset() + static_cast<int64_t>(download.data.size()));
      EXPECT_EQ(chunk.crc32c(), Crc32c(chunk.data()));
      EXPECT_LE(chunk.data().size(), kMebibyte);
      EXPECT_EQ(chunk.file_sha256().size(), 64u);
      download.data += chunk.data();
      ++download.chunks;
    }
    download.status = reader->Finish();
    return download;
  }

  std::string WeightsPath() {
    return layout_->CheckpointFolder("demo", 100) + "/lorsa.safetensors";
  }

  JobManager jobs_{{}, Jobs()};
  std::string weights_;
  std::unique_ptr<CheckpointService> service_;
  std::unique_ptr<v1::CheckpointService::Stub> stub_;
};

TEST_F(CheckpointServiceTest, ListsOldestFirstAndKnowsBestAndLatest) {
  const AttemptKey attempt = RunningJob("demo");
  v1::Checkpoint checkpoint;
  grpc::Status status = Get("jobs/demo/checkpoints/best", checkpoint);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonIn(status), "NO_CHECKPOINT");
  EXPECT_EQ(Get("jobs/demo/checkpoints/latest", checkpoint).error_code(),
            grpc::StatusCode::NOT_FOUND);

  Publish(attempt, 100, 0.3);
  Publish(attempt, 200, 0.2);
  Publish(attempt, 300, std::nullopt);
  grpc::ClientContext context;
  v1::ListCheckpointsRequest request;
  request.set_parent("jobs/demo");
  v1::ListCheckpointsResponse response;
  ASSERT_TRUE(stub_->ListCheckpoints(&context, request, &response).ok());
  ASSERT_EQ(response.checkpoints_size(), 3);
  EXPECT_EQ(response.checkpoints(0).name(), "jobs/demo/checkpoints/step-000000100");
  ASSERT_TRUE(Get("jobs/demo/checkpoints/best", checkpoint).ok());
  EXPECT_EQ(checkpoint.step(), 200);
  ASSERT_TRUE(Get("jobs/demo/checkpoints/latest", checkpoint).ok());
  EXPECT_EQ(checkpoint.step(), 300);
  ASSERT_TRUE(Get("jobs/demo/checkpoints/step-000000100", checkpoint).ok());
  EXPECT_EQ(checkpoint.files_size(), 2);
}

TEST_F(CheckpointServiceTest, ListsInPages) {
  const AttemptKey attempt = RunningJob("demo");
  for (int64_t step = 1; step <= 5; ++step) Publish(attempt, step * 100, std::nullopt);
  v1::ListCheckpointsRequest request;
  request.set_parent("jobs/demo");
  request.set_page_size(2);
  std::vector<int64_t> steps;
  std::vector<int> sizes;
  do {
    grpc::ClientContext context;
    v1::ListCheckpointsResponse response;
    ASSERT_TRUE(stub_->ListCheckpoints(&context, request, &response).ok());
    for (const auto& checkpoint : response.checkpoints()) steps.push_back(checkpoint.step());
    sizes.push_back(response.checkpoints_size());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(steps, testing::ElementsAre(100, 200, 300, 400, 500));
  EXPECT_THAT(sizes, testing::ElementsAre(2, 2, 1));

  for (const auto& [size, token] : {std::pair<int, const char*>(-1, ""), {1001, ""}, {1, "x"}}) {
    grpc::ClientContext context;
    v1::ListCheckpointsResponse response;
    request.set_page_size(size);
    request.set_page_token(token);
    EXPECT_EQ(stub_->ListCheckpoints(&context, request, &response).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
}

TEST_F(CheckpointServiceTest, DeletesWhatIsNeitherPinnedNorNeeded) {
  const AttemptKey attempt = RunningJob("demo");
  Publish(attempt, 100, 0.3);
  Publish(attempt, 200, 0.4);
  v1::Checkpoint checkpoint;
  ASSERT_TRUE(Pin(&v1::CheckpointService::Stub::PinCheckpoint,
                  "jobs/demo/checkpoints/step-000000100", checkpoint)
                  .ok());
  grpc::Status status = Delete("jobs/demo/checkpoints/step-000000100");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonIn(status), "CHECKPOINT_PINNED");
  status = Delete("jobs/demo/checkpoints/step-000000200");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonIn(status), "CHECKPOINT_NEEDED");
  EXPECT_EQ(Delete("jobs/demo/checkpoints/latest").error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Delete("jobs/demo/checkpoints/step-000000300").error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(std::filesystem::exists(WeightsPath()));

  ASSERT_TRUE(Pin(&v1::CheckpointService::Stub::UnpinCheckpoint,
                  "jobs/demo/checkpoints/step-000000100", checkpoint)
                  .ok());
  EXPECT_TRUE(Delete("jobs/demo/checkpoints/step-000000100").ok());
  EXPECT_FALSE(std::filesystem::exists(layout_->CheckpointFolder("demo", 100)));
  EXPECT_TRUE(std::filesystem::is_empty(layout_->TrashFolder("demo")));
  EXPECT_EQ(Get("jobs/demo/checkpoints/step-000000100", checkpoint).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

// What a client has begun to read is that file to its end, or an error: never other bytes.
TEST_F(CheckpointServiceTest, DeletedOrReplacedWhileBeingReadGivesTheFileOrAnError) {
  const AttemptKey attempt = RunningJob("demo");
  Publish(attempt, 100, 0.3);
  Publish(attempt, 200, 0.4);
  grpc::ClientContext context;
  auto reader = stub_->ReadFile(&context, Request(0, 0));
  v1::FileChunk chunk;
  ASSERT_TRUE(reader->Read(&chunk));
  std::string data = chunk.data();
  ASSERT_TRUE(Delete("jobs/demo/checkpoints/step-000000100").ok());
  while (reader->Read(&chunk)) data += chunk.data();
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok() ? data == weights_ : !status.error_message().empty());
  v1::ReadFileRequest rest = Request(kMebibyte, 0);
  rest.set_expected_sha256(Sha256Hex(weights_));
  EXPECT_EQ(Read(rest).status.error_code(), grpc::StatusCode::NOT_FOUND);

  const std::string first = weights_;
  weights_[5] ^= 1;
  Publish(attempt, 100, 0.3);  // another one of the same step
  const Download replaced = Read(rest);
  EXPECT_EQ(replaced.status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(ReasonIn(replaced.status), "FILE_CHANGED");
  EXPECT_EQ(replaced.data, "");
}

TEST_F(CheckpointServiceTest, ADamagedOneIsMarkedAndNeitherBestNorLatest) {
  const AttemptKey attempt = RunningJob("demo");
  Publish(attempt, 100, 0.3);
  Publish(attempt, 200, 0.2);
  v1::Checkpoint checkpoint;
  ASSERT_TRUE(Get("jobs/demo/checkpoints/latest", checkpoint).ok());
  ASSERT_TRUE(catalog_->PutVerdict("demo", checkpoint, "a byte is wrong", absl::Now()).ok());
  for (const char* alias : {"best", "latest"}) {
    ASSERT_TRUE(Get(std::string("jobs/demo/checkpoints/") + alias, checkpoint).ok());
    EXPECT_EQ(checkpoint.step(), 100) << alias;
    EXPECT_EQ(checkpoint.damage(), "");
  }
  ASSERT_TRUE(Get("jobs/demo/checkpoints/step-000000200", checkpoint).ok());
  EXPECT_EQ(checkpoint.damage(), "a byte is wrong");
  EXPECT_THAT(jobs_.sessions().publisher().PublishedFolders("demo").value(),
              testing::ElementsAre(layout_->CheckpointFolder("demo", 100)));
  const v1::Job job = catalog_->GetJob("demo")->job;
  EXPECT_EQ(job.latest_checkpoint(), "jobs/demo/checkpoints/step-000000100");
  EXPECT_EQ(job.best_checkpoint(), "jobs/demo/checkpoints/step-000000100");
  // The damaged one is nothing that the job goes on from, the one before is.
  EXPECT_EQ(ReasonIn(Delete("jobs/demo/checkpoints/step-000000100")), "CHECKPOINT_NEEDED");
  EXPECT_TRUE(Delete("jobs/demo/checkpoints/step-000000200").ok());
}

TEST_F(CheckpointServiceTest, RefusesNamesThatAreNotCheckpoints) {
  Publish(RunningJob("demo"), 100, 0.3);
  v1::Checkpoint checkpoint;
  for (const char* name :
       {"", "jobs/demo", "jobs/demo/checkpoints/", "jobs/demo/checkpoints/../x",
        "jobs/../checkpoints/step-000000100", "jobs/demo/checkpoints/step-100",
        "jobs/demo/checkpoints/step--00000001", "jobs/demo/checkpoints/step-000000100/x",
        "jobs/demo/checkpoints/step-00000010x", "jobs/a/b/checkpoints/latest"}) {
    EXPECT_EQ(Get(name, checkpoint).error_code(), grpc::StatusCode::INVALID_ARGUMENT) << name;
  }
  EXPECT_EQ(Get("jobs/demo/checkpoints/step-000000999", checkpoint).error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Get("jobs/none/checkpoints/latest", checkpoint).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(CheckpointServiceTest, ReadsRangesOfAFile) {
  Publish(RunningJob("demo"), 100, 0.3);
  const int64_t size = static_cast<int64_t>(weights_.size());
  const Download whole = Read(Request(0, 0));
  EXPECT_TRUE(whole.status.ok());
  EXPECT_EQ(whole.chunks, 9);
  EXPECT_TRUE(whole.data == weights_);
  struct {
    int64_t offset, limit;
  } ranges[] = {{0, 1},        {1, kMebibyte},  {kMebibyte, 0}, {5, kMebibyte + 1},
                {size - 1, 0}, {size - 1, 100}, {0, size + 100}};
  for (const auto& range : ranges) {
    const Download part = Read(Request(range.offset, range.limit));
    EXPECT_TRUE(part.status.ok());
    const size_t limit = range.limit == 0 ? std::string::npos : range.limit;
    EXPECT_TRUE(part.data == weights_.substr(range.offset, limit)) << range.offset;
  }
}

TEST_F(CheckpointServiceTest, AnEmptyRangeStillTellsSizeAndDigest) {
  Publish(RunningJob("demo"), 100, 0.3);
  for (const auto& request :
       {Request(static_cast<int64_t>(weights_.size()), 0), Request(0, 0, "config.json")}) {
    const Download nothing = Read(request);
    EXPECT_TRUE(nothing.status.ok());
    EXPECT_EQ(nothing.chunks, 1);
    EXPECT_EQ(nothing.data, "");
  }
}

TEST_F(CheckpointServiceTest, RefusesRangesOutsideOfTheFile) {
  Publish(RunningJob("demo"), 100, 0.3);
  const int64_t size = static_cast<int64_t>(weights_.size());
  EXPECT_EQ(Read(Request(size + 1, 0)).status.error_code(), grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(Read(Request(-1, 0)).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Read(Request(0, -1)).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(CheckpointServiceTest, ReadsOnlyTheFilesOfTheCheckpoint) {
  Publish(RunningJob("demo"), 100, 0.3);
  std::ofstream(layout_->CheckpointFolder("demo", 100) + "/extra") << "x";
  for (const char* file : {"", "extra", "../step-000000100/config.json", "/etc/passwd", "."}) {
    EXPECT_EQ(Read(Request(0, 0, file)).status.error_code(), grpc::StatusCode::NOT_FOUND) << file;
  }
  v1::ReadFileRequest request = Request(0, 0);
  request.set_name("jobs/demo/checkpoints/latest");
  EXPECT_EQ(Read(request).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(CheckpointServiceTest, AnotherExpectedDigestAborts) {
  Publish(RunningJob("demo"), 100, 0.3);
  v1::ReadFileRequest request = Request(10, 0);
  request.set_expected_sha256(Sha256Hex(weights_));
  EXPECT_TRUE(Read(request).status.ok());
  request.set_expected_sha256(std::string(64, '0'));
  const Download download = Read(request);
  EXPECT_EQ(download.status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(ReasonIn(download.status), "FILE_CHANGED");
}

TEST_F(CheckpointServiceTest, AReplacedFileAborts) {
  Publish(RunningJob("demo"), 100, 0.3);
  std::string other = weights_;
  other[kMebibyte] ^= 1;
  std::ofstream(WeightsPath()) << other;  // of the same size
  Download download = Read(Request(0, 0));
  EXPECT_EQ(download.status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(ReasonIn(download.status), "FILE_CHANGED");
  EXPECT_LT(download.data.size(), weights_.size()) << "the last chunk was sent";

  std::ofstream(WeightsPath()) << "short";
  EXPECT_EQ(Read(Request(0, 0)).status.error_code(), grpc::StatusCode::ABORTED);

  std::filesystem::remove(WeightsPath());
  EXPECT_EQ(Read(Request(0, 0)).status.error_code(), grpc::StatusCode::ABORTED);
}

TEST_F(CheckpointServiceTest, LinksAreNotFollowed) {
  Publish(RunningJob("demo"), 100, 0.3);
  std::ofstream(folder_ + "/same") << weights_;
  std::filesystem::remove(WeightsPath());
  std::filesystem::create_symlink(folder_ + "/same", WeightsPath());
  EXPECT_EQ(Read(Request(0, 0)).status.error_code(), grpc::StatusCode::ABORTED);
}

TEST_F(CheckpointServiceTest, PinsAndUnpinsByStepAndByBest) {
  using Stub = v1::CheckpointService::Stub;
  const AttemptKey attempt = RunningJob("demo");
  Publish(attempt, 100, 0.3);
  Publish(attempt, 200, 0.4);
  v1::Checkpoint checkpoint;
  ASSERT_TRUE(Pin(&Stub::PinCheckpoint, "jobs/demo/checkpoints/best", checkpoint).ok());
  EXPECT_EQ(checkpoint.step(), 100);
  EXPECT_TRUE(checkpoint.pinned());
  EXPECT_TRUE(checkpoint.best());
  ASSERT_TRUE(Get("jobs/demo/checkpoints/step-000000200", checkpoint).ok());
  EXPECT_FALSE(checkpoint.pinned());
  const std::string name = "jobs/demo/checkpoints/step-000000100";
  ASSERT_TRUE(Pin(&Stub::PinCheckpoint, name, checkpoint).ok());  // again
  ASSERT_TRUE(Pin(&Stub::UnpinCheckpoint, name, checkpoint).ok());
  EXPECT_FALSE(checkpoint.pinned());
  EXPECT_EQ(
      Pin(&Stub::PinCheckpoint, "jobs/demo/checkpoints/step-000000300", checkpoint).error_code(),
      grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Pin(&Stub::UnpinCheckpoint, "jobs/demo", checkpoint).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace lorsa::server
