#include "trainer/worker/file_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/crc32c.h"
#include "base/scratch_folder.h"
#include "lorsa/v1/checkpoint_service.grpc.pb.h"

namespace lorsa::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr char kFolder[] = "step-000000010";
constexpr char kName[] = "jobs/demo/checkpoints/step-000000010";
constexpr int64_t kMiB = 1 << 20;

// One chunk of `bytes`, from `offset` on; then the call breaks, unless that was the last one.
grpc::Status SendChunk(const std::string& bytes, int64_t offset, bool damaged,
                       grpc::ServerWriter<v1::FileChunk>& writer) {
  v1::FileChunk chunk;
  chunk.set_offset(offset);
  chunk.set_data(bytes.substr(static_cast<size_t>(offset), kMiB));
  chunk.set_crc32c(Crc32c(chunk.data()) ^ (damaged ? 1u : 0u));
  chunk.set_file_size(static_cast<int64_t>(bytes.size()));
  chunk.set_file_sha256(Sha256Hex(bytes));
  writer.Write(chunk);
  const bool last = static_cast<size_t>(offset) + chunk.data().size() == bytes.size();
  return last ? grpc::Status::OK : grpc::Status(grpc::StatusCode::UNAVAILABLE, "broken");
}

// Keeps what is sent as lorsad does, in memory, and breaks where it is told to.
class FakeWorkers final : public v1::WorkerService::Service {
 public:
  grpc::Status GetStagedUpload(grpc::ServerContext*, const v1::GetStagedUploadRequest* request,
                               v1::Upload* upload) override {
    absl::MutexLock lock(&mu_);
    EXPECT_EQ(request->folder(), kFolder);
    for (const auto& [name, bytes] : files_) {
      v1::UploadedFile& file = *upload->add_files();
      file.set_file(name);
      file.set_received_bytes(static_cast<int64_t>(bytes.size()));
    }
    return grpc::Status::OK;
  }

  grpc::Status UploadStagedFile(grpc::ServerContext* context,
                                grpc::ServerReader<v1::UploadStagedFileRequest>* reader,
                                v1::UploadedFile* answer) override {
    absl::MutexLock lock(&mu_);
    ++calls_;
    tokens_.push_back(std::string(context->client_metadata().find("authorization")->second.data(),
                                  context->client_metadata().find("authorization")->second.size()));
    if (!refuse.ok()) return refuse;
    v1::UploadStagedFileRequest message;
    if (!reader->Read(&message) || !message.has_start()) return Broken();
    const v1::StagedFileStart start = message.start();
    std::string& bytes = files_[start.file()];
    if (start.offset() != static_cast<int64_t>(bytes.size())) {
      return {grpc::StatusCode::ABORTED, "another offset"};
    }
    int64_t pieces = 0;
    while (reader->Read(&message)) {
      if (pieces++ == break_after_pieces) return Broken();
      EXPECT_EQ(message.data().crc32c(), Crc32c(message.data().data()));
      EXPECT_LE(message.data().data().size(), static_cast<size_t>(kMiB));
      bytes += message.data().data();
      received_ += static_cast<int64_t>(message.data().data().size());
    }
    if (damaged_answers > 0) {
      --damaged_answers;
      files_.erase(start.file());
      return {grpc::StatusCode::DATA_LOSS, "another sha256"};
    }
    // Not all of them came if the client broke off.
    answer->set_complete(static_cast<int64_t>(bytes.size()) == start.size_bytes());
    if (answer->complete()) {
      EXPECT_EQ(Sha256Hex(bytes), start.sha256());
    }
    return grpc::Status::OK;
  }

  grpc::Status ReadInitialCheckpoint(grpc::ServerContext* context,
                                     const v1::ReadInitialCheckpointRequest* request,
                                     grpc::ServerWriter<v1::FileChunk>* writer) override {
    absl::MutexLock lock(&mu_);
    ++calls_;
    EXPECT_EQ(context->client_metadata().count("authorization"), 1u);
    return SendChunk(initial.at(request->file()), request->offset(), /*damaged=*/false, *writer);
  }

  grpc::Status StoreRollbacks(grpc::ServerContext*, const v1::StoreRollbacksRequest* request,
                              google::protobuf::Empty*) override {
    absl::MutexLock lock(&mu_);
    if (calls_++ == 0) return Broken();
    files_["rollbacks"] = request->contents();
    return grpc::Status::OK;
  }

  std::map<std::string, std::string> files() {
    absl::MutexLock lock(&mu_);
    return files_;
  }
  std::vector<std::string> tokens() {
    absl::MutexLock lock(&mu_);
    return tokens_;
  }
  int64_t received() {
    absl::MutexLock lock(&mu_);
    return received_;
  }
  int calls() {
    absl::MutexLock lock(&mu_);
    return calls_;
  }

  // Set before the call.
  grpc::Status refuse;
  int64_t break_after_pieces = -1;
  int damaged_answers = 0;
  std::map<std::string, std::string> initial;  // files of the checkpoint that the job starts from

 private:
  static grpc::Status Broken() { return {grpc::StatusCode::UNAVAILABLE, "broken on purpose"}; }

  absl::Mutex mu_;
  std::map<std::string, std::string> files_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> tokens_ ABSL_GUARDED_BY(mu_);
  int64_t received_ ABSL_GUARDED_BY(mu_) = 0;
  int calls_ ABSL_GUARDED_BY(mu_) = 0;
};

// A published checkpoint of one file, of which each call sends one chunk and breaks.
class FakeCheckpoints final : public v1::CheckpointService::Service {
 public:
  grpc::Status GetCheckpoint(grpc::ServerContext*, const v1::GetCheckpointRequest* request,
                             v1::Checkpoint* checkpoint) override {
    if (request->name() != kName) return {grpc::StatusCode::NOT_FOUND, "no such checkpoint"};
    v1::CheckpointFile& file = *checkpoint->add_files();
    file.set_name(file_name);
    file.set_size_bytes(static_cast<int64_t>(bytes.size()));
    file.set_sha256(Sha256Hex(bytes));
    return grpc::Status::OK;
  }

  grpc::Status ReadFile(grpc::ServerContext*, const v1::ReadFileRequest* request,
                        grpc::ServerWriter<v1::FileChunk>* writer) override {
    ++reads;
    EXPECT_EQ(request->expected_sha256(), Sha256Hex(bytes));
    if (changed) return {grpc::StatusCode::ABORTED, "not the file that was published"};
    return SendChunk(bytes, request->offset(), damaged, *writer);
  }

  std::string bytes = std::string(5 * kMiB / 2, 'c');
  std::string file_name = "lorsa.safetensors";
  bool changed = false;
  bool damaged = false;
  std::atomic<int> reads = 0;
};

class FileTransferTest : public testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&workers_);
    builder.RegisterService(&checkpoints_);
    server_ = builder.BuildAndStart();
    v1::WorkerBootstrap bootstrap;
    bootstrap.set_token("secret");
    bootstrap.set_endpoint(absl::StrCat("127.0.0.1:", port));
    channel_ = std::make_unique<ServerChannel>(fs_, bootstrap);
    transfer_ = std::make_unique<FileTransfer>(
        fs_, *channel_, [this] { return give_up_.load(); },
        [this](int64_t percent) { percents_.push_back(percent); });
  }

  // Files of a staged checkpoint on this machine; the path of its folder.
  std::string Stage(const std::map<std::string, std::string>& files) {
    const std::string path = scratch_.Path(kFolder);
    EXPECT_TRUE(fs_.CreateDirectories(path).ok());
    for (const auto& [name, bytes] : files) {
      EXPECT_TRUE(WriteFileAtomically(fs_, JoinPath(path, name), bytes).ok());
    }
    return path;
  }
  absl::Status Fetch(const std::string& name = kName) {
    return transfer_->FetchCheckpoint(name, scratch_.Path("fetched/step"));
  }

  PosixFileSystem fs_;
  ScratchFolder scratch_;
  std::atomic<bool> give_up_ = false;
  std::vector<int64_t> percents_;  // of fetches
  FakeWorkers workers_;
  FakeCheckpoints checkpoints_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ServerChannel> channel_;
  std::unique_ptr<FileTransfer> transfer_;
};

TEST_F(FileTransferTest, SendsEveryFileWithTheToken) {
  const std::string weights(5 * kMiB / 2, 'w');
  const absl::Status sent =
      transfer_->SendCheckpoint(Stage({{"lorsa.safetensors", weights}, {"config.json", "{}"}}));
  ASSERT_TRUE(sent.ok()) << sent;
  EXPECT_THAT(workers_.files(),
              UnorderedElementsAre(Pair("lorsa.safetensors", weights), Pair("config.json", "{}")));
  EXPECT_THAT(workers_.tokens(), ElementsAre("Bearer secret", "Bearer secret"));
}

TEST_F(FileTransferTest, AnUploadThatBreaksGoesOnWhereItEnded) {
  workers_.break_after_pieces = 1;
  const std::string weights(7 * kMiB / 2, 'w');
  const absl::Status sent = transfer_->SendCheckpoint(Stage({{"lorsa.safetensors", weights}}));
  ASSERT_TRUE(sent.ok()) << sent;
  EXPECT_THAT(workers_.files(), ElementsAre(Pair("lorsa.safetensors", weights)));
  EXPECT_EQ(workers_.calls(), 4);
  EXPECT_EQ(workers_.received(), static_cast<int64_t>(weights.size())) << "nothing twice";
}

TEST_F(FileTransferTest, AFileThatArrivedDamagedIsSentAgainButNotForever) {
  workers_.damaged_answers = 2;
  const std::string path = Stage({{"config.json", "{}"}});
  EXPECT_TRUE(transfer_->SendCheckpoint(path).ok());
  EXPECT_EQ(workers_.calls(), 3);
  workers_.damaged_answers = 1000;
  EXPECT_TRUE(fs_.RemoveAll(path).ok());
  EXPECT_TRUE(absl::IsDataLoss(transfer_->SendCheckpoint(Stage({{"state.json", "{}"}}))));
}

TEST_F(FileTransferTest, WhatIsFinalIsTriedOnce) {
  const std::string path = Stage({{"config.json", "{}"}});
  workers_.refuse = {grpc::StatusCode::RESOURCE_EXHAUSTED, "no room"};
  EXPECT_TRUE(absl::IsResourceExhausted(transfer_->SendCheckpoint(path)));
  workers_.refuse = {grpc::StatusCode::FAILED_PRECONDITION, "the attempt is over"};
  EXPECT_TRUE(absl::IsFailedPrecondition(transfer_->SendCheckpoint(path)));
  EXPECT_EQ(workers_.calls(), 2);
}

TEST_F(FileTransferTest, AServerThatIsAwayIsTriedUntilToldToGiveUp) {
  const std::string path = Stage({{"config.json", "{}"}});
  server_->Shutdown();
  std::atomic<int> asked = 0;
  FileTransfer transfer(
      fs_, *channel_, [&] { return ++asked == 3; }, [](int64_t) {});
  EXPECT_TRUE(absl::IsCancelled(transfer.SendCheckpoint(path)));
  EXPECT_EQ(asked, 3);
}

TEST_F(FileTransferTest, AStopBreaksAnUploadOff) {
  give_up_ = true;
  EXPECT_TRUE(absl::IsCancelled(transfer_->SendCheckpoint(Stage({{"config.json", "{}"}}))));
  EXPECT_EQ(workers_.received(), 0);
}

TEST_F(FileTransferTest, ADownloadThatBreaksGoesOnWhereItEnded) {
  ASSERT_TRUE(Fetch().ok());
  EXPECT_EQ(ReadFile(fs_, scratch_.Path("fetched/step/lorsa.safetensors"), 4 * kMiB).value(),
            checkpoints_.bytes);
  EXPECT_EQ(checkpoints_.reads, 3);
  EXPECT_THAT(percents_, ElementsAre(40, 80, 100));
}

TEST_F(FileTransferTest, ADamagedDownloadIsDamageOfTheCheckpoint) {
  checkpoints_.damaged = true;
  EXPECT_TRUE(absl::IsDataLoss(Fetch()));
  checkpoints_.damaged = false;
  checkpoints_.changed = true;
  EXPECT_TRUE(absl::IsDataLoss(Fetch()));
  EXPECT_TRUE(absl::IsNotFound(Fetch("jobs/demo/checkpoints/step-000000020")));
}

TEST_F(FileTransferTest, TheCheckpointThatAJobStartsFromIsFetched) {
  workers_.initial = {{"config.json", "{}"}, {"lorsa.safetensors", std::string(3 * kMiB / 2, 'w')}};
  google::protobuf::RepeatedPtrField<v1::CheckpointFile> files;
  for (const auto& [name, bytes] : workers_.initial) files.Add()->set_name(name);
  const std::string path = scratch_.Path("fetched/initial_checkpoint");
  ASSERT_TRUE(transfer_->FetchInitialCheckpoint(files, path).ok());
  EXPECT_EQ(workers_.calls(), 3) << "the second file in two";
  for (const auto& [name, bytes] : workers_.initial) {
    EXPECT_EQ(ReadFile(fs_, JoinPath(path, name), 4 * kMiB).value(), bytes) << name;
  }
  files.Clear();
  EXPECT_TRUE(absl::IsDataLoss(transfer_->FetchInitialCheckpoint(files, path)));
}

TEST_F(FileTransferTest, AFileNameThatLeavesTheFolderIsRefused) {
  checkpoints_.file_name = "../weights";
  EXPECT_TRUE(absl::IsInvalidArgument(Fetch()));
  EXPECT_FALSE(fs_.Exists(scratch_.Path("fetched/weights")).value());
}

TEST_F(FileTransferTest, RollbacksAreSentUntilTheyAreKept) {
  ASSERT_TRUE(transfer_->SendRollbacks("the list").ok());
  EXPECT_THAT(workers_.files(), ElementsAre(Pair("rollbacks", "the list")));
  EXPECT_EQ(workers_.calls(), 2);
}

}  // namespace
}  // namespace lorsa::worker
