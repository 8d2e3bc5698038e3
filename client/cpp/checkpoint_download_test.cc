#include "lorsa/client/checkpoint_download.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <set>

#include "absl/synchronization/mutex.h"
#include "base/crc32c.h"
#include "base/sha256.h"
#include "client/cpp/testing/fake_services.h"

namespace lorsa::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kName[] = "jobs/a/checkpoints/step-000000100";

std::string RandomBytes(size_t size, uint32_t seed) {
  std::mt19937 generator(seed);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(generator());
  return bytes;
}

class CheckpointDownloadTest : public testing::Test {
 protected:
  CheckpointDownloadTest() {
    client_ = *Client::Create({.server = server_.address(),
                               .initial_backoff = absl::Milliseconds(1),
                               .max_backoff = absl::Milliseconds(2)});
    parent_ = testing::TempDir() + "/download_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(parent_);
    std::filesystem::create_directories(parent_);
    folder_ = JoinPath(parent_, "out");
    partial_ = folder_ + ".partial";
    contents_ = {{"config.json", "{}"},
                 {"empty", ""},
                 {"lorsa.safetensors", RandomBytes(50'001, 1)},
                 {"state.safetensors", RandomBytes(20'000, 2)}};
    server_.checkpoints.Add(kName, contents_);
  }

  absl::StatusOr<v1::Checkpoint> Run(const DownloadCallbacks& callbacks = {}) {
    return DownloadCheckpoint(*client_, kName, folder_, callbacks);
  }
  void ExpectComplete() {
    for (const auto& [name, bytes] : contents_) {
      const auto read = ReadFile(fs_, JoinPath(folder_, name), 1 << 20);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(Sha256Hex(*read), Sha256Hex(bytes)) << name;
    }
    EXPECT_THAT(*fs_.List(folder_),
                ElementsAre("config.json", "empty", "lorsa.safetensors", "state.safetensors"));
    EXPECT_FALSE(*fs_.Exists(partial_));
  }
  int64_t TotalBytes() const {
    int64_t total = 0;
    for (const auto& [name, bytes] : contents_) total += static_cast<int64_t>(bytes.size());
    return total;
  }
  void LeaveBehind(const std::string& name, absl::string_view bytes) {
    ASSERT_TRUE(fs_.CreateDirectories(partial_).ok());
    ASSERT_TRUE(WriteFileAtomically(fs_, JoinPath(partial_, name), bytes).ok());
  }

  FakeServer server_;
  std::unique_ptr<Client> client_;
  PosixFileSystem fs_;
  std::string parent_, folder_, partial_;
  std::map<std::string, std::string> contents_;
};

TEST_F(CheckpointDownloadTest, AllFilesArriveAndProgressReachesTheTotal) {
  int64_t done = 0, total = 0;
  const auto checkpoint = Run({.on_progress = [&](int64_t d, int64_t t) { done = d, total = t; }});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->name(), kName);
  ExpectComplete();
  EXPECT_EQ(done, TotalBytes());
  EXPECT_EQ(total, TotalBytes());
}

TEST_F(CheckpointDownloadTest, AStreamCutAtRandomPlacesIsResumedEachTime) {
  std::mt19937 generator(7);
  int cuts = 0;
  server_.checkpoints.chunk_bytes = 700;
  server_.checkpoints.before_chunk = [&](v1::FileChunk&) {
    if (generator() % 4 != 0) return grpc::Status::OK;
    ++cuts;
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "cut");
  };
  const auto checkpoint = Run();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ExpectComplete();
  EXPECT_GT(cuts, 10);
  EXPECT_LT(server_.checkpoints.bytes_sent, 2 * TotalBytes());  // Nothing began from the start.
}

TEST_F(CheckpointDownloadTest, AServerThatRestartsInTheMiddleIsFoundAgain) {
  std::atomic<bool> restarted = false;
  const auto checkpoint = Run({.on_progress = [&](int64_t done, int64_t) {
    if (done < 30'000 || restarted.exchange(true)) return;
    server_.Stop();
    server_.Start();
  }});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_TRUE(restarted);
  ExpectComplete();
}

TEST_F(CheckpointDownloadTest, WhatAKilledProcessLeftIsKept) {
  LeaveBehind("lorsa.safetensors", contents_["lorsa.safetensors"].substr(0, 40'000));
  LeaveBehind("config.json", contents_["config.json"]);
  const auto checkpoint = Run();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ExpectComplete();
  EXPECT_EQ(server_.checkpoints.bytes_sent, TotalBytes() - 40'000 - 2);
}

TEST_F(CheckpointDownloadTest, LeftOversOfOtherContentsAreFetchedAnew) {
  LeaveBehind("lorsa.safetensors", RandomBytes(10'000, 9));   // another beginning
  LeaveBehind("state.safetensors", RandomBytes(30'000, 10));  // longer than the file
  LeaveBehind("config.json", "[]");                           // as long as the file
  int64_t done = 0;
  const auto checkpoint = Run({.on_progress = [&](int64_t d, int64_t) { done = d; }});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ExpectComplete();
  EXPECT_EQ(done, TotalBytes());
}

TEST_F(CheckpointDownloadTest, AStrangersFileInThePartialFolderIsNotPublished) {
  LeaveBehind("notes.txt", "mine");
  const auto checkpoint = Run();
  EXPECT_TRUE(absl::IsAlreadyExists(checkpoint.status()));
  EXPECT_THAT(std::string(checkpoint.status().message()), HasSubstr("holds notes.txt"));
  EXPECT_EQ(*ReadFile(fs_, JoinPath(partial_, "notes.txt"), 100), "mine");
  EXPECT_FALSE(*fs_.Exists(folder_));
}

TEST_F(CheckpointDownloadTest, AChunkDamagedOnItsWayIsAskedForAgain) {
  // Every tenth chunk of a file, once: a stream that the client has given up still sends chunks, so
  // their count says nothing about the stream after it.
  absl::Mutex mutex;
  std::set<std::pair<int64_t, int64_t>> damaged;  // sizes of files and offsets
  server_.checkpoints.before_chunk = [&](v1::FileChunk& chunk) {
    absl::MutexLock lock(&mutex);
    if (chunk.offset() % 10'000 == 9'000 &&
        damaged.emplace(chunk.file_size(), chunk.offset()).second) {
      (*chunk.mutable_data())[0] ^= 1;
    }
    return grpc::Status::OK;
  };
  const auto checkpoint = Run();
  EXPECT_THAT(damaged, testing::SizeIs(7));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ExpectComplete();
}

TEST_F(CheckpointDownloadTest, ChunksThatAlwaysArriveDamagedAreAnError) {
  server_.checkpoints.before_chunk = [&](v1::FileChunk& chunk) {
    if (chunk.offset() == 30'000) chunk.set_crc32c(chunk.crc32c() + 1);
    return grpc::Status::OK;
  };
  const auto checkpoint = Run();
  EXPECT_TRUE(absl::IsDataLoss(checkpoint.status())) << checkpoint.status();
  EXPECT_THAT(std::string(checkpoint.status().message()),
              HasSubstr("lorsa.safetensors from byte 30000 on arrived damaged 5 times"));
  EXPECT_FALSE(*fs_.Exists(folder_));
}

TEST_F(CheckpointDownloadTest, ChunksOutOfPlaceEmptyOrTooLongCountAsDamaged) {
  const std::vector<std::function<void(v1::FileChunk&)>> lies = {
      [](v1::FileChunk& chunk) { chunk.set_offset(chunk.offset() + 1); },
      [](v1::FileChunk& chunk) { chunk.clear_data(), chunk.set_crc32c(0); },
      [](v1::FileChunk& chunk) { chunk.mutable_data()->resize(60'000); },
  };
  for (const auto& lie : lies) {
    server_.checkpoints.before_chunk = [&](v1::FileChunk& chunk) {
      lie(chunk);
      return grpc::Status::OK;
    };
    EXPECT_TRUE(absl::IsDataLoss(Run().status()));
    EXPECT_FALSE(*fs_.Exists(folder_));
  }
}

TEST_F(CheckpointDownloadTest, AFileThatChangedOnTheServerIsNotMixed) {
  server_.checkpoints.before_chunk = [&](v1::FileChunk& chunk) {
    if (chunk.offset() >= 5'000) chunk.set_file_sha256(Sha256Hex("another"));
    return grpc::Status::OK;
  };
  EXPECT_TRUE(absl::IsAborted(Run().status()));
  EXPECT_FALSE(*fs_.Exists(folder_));
}

TEST_F(CheckpointDownloadTest, AFileWithAnotherSha256NeverAppears) {
  // Damaged on the server's disk: its chunks are consistent, the whole is not what it lists.
  server_.checkpoints.before_chunk = [&](v1::FileChunk& chunk) {
    if (chunk.file_size() != 50'001 || chunk.offset() != 10'000) return grpc::Status::OK;
    chunk.set_data(std::string(chunk.data().size(), 'x'));
    chunk.set_crc32c(Crc32c(chunk.data()));
    return grpc::Status::OK;
  };
  const auto checkpoint = Run();
  EXPECT_TRUE(absl::IsDataLoss(checkpoint.status())) << checkpoint.status();
  EXPECT_THAT(std::string(checkpoint.status().message()),
              HasSubstr("lorsa.safetensors of jobs/a/checkpoints/step-000000100 does not have"));
  EXPECT_FALSE(*fs_.Exists(folder_));
  EXPECT_FALSE(*fs_.Exists(JoinPath(partial_, "lorsa.safetensors")));
}

TEST_F(CheckpointDownloadTest, ACompleteFolderIsSuccessWithoutReading) {
  ASSERT_TRUE(Run().ok());
  const int reads = server_.checkpoints.reads;
  EXPECT_TRUE(Run().ok());
  EXPECT_EQ(server_.checkpoints.reads, reads);
}

TEST_F(CheckpointDownloadTest, AFolderWithOtherContentsIsLeftAlone) {
  ASSERT_TRUE(fs_.CreateDirectories(folder_).ok());
  ASSERT_TRUE(WriteFileAtomically(fs_, JoinPath(folder_, "config.json"), "mine").ok());
  const auto checkpoint = Run();
  EXPECT_TRUE(absl::IsAlreadyExists(checkpoint.status()));
  EXPECT_THAT(std::string(checkpoint.status().message()), HasSubstr("choose another folder"));
  EXPECT_EQ(*ReadFile(fs_, JoinPath(folder_, "config.json"), 100), "mine");
}

TEST_F(CheckpointDownloadTest, AnEmptyFolderAndSlashesAtTheEndAreFine) {
  ASSERT_TRUE(fs_.CreateDirectories(folder_).ok());
  const auto checkpoint = DownloadCheckpoint(*client_, kName, folder_ + "//", {});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ExpectComplete();
  for (const char* folder : {"", ".", "..", "/", "a/.."}) {
    EXPECT_TRUE(absl::IsInvalidArgument(DownloadCheckpoint(*client_, kName, folder, {}).status()))
        << folder;
  }
}

TEST_F(CheckpointDownloadTest, HostileListsAreRefusedBeforeAnythingIsWritten) {
  const v1::Checkpoint honest = server_.checkpoints.checkpoints[kName];
  const std::vector<std::function<void(v1::Checkpoint&)>> lies = {
      [](v1::Checkpoint& c) { c.mutable_files(0)->set_name("../x"); },
      [](v1::Checkpoint& c) { c.mutable_files(0)->set_name("/etc/passwd"); },
      [](v1::Checkpoint& c) { c.mutable_files(0)->set_name(".."); },
      [](v1::Checkpoint& c) { c.mutable_files(0)->set_name(""); },
      [](v1::Checkpoint& c) { c.mutable_files(0)->set_name(std::string("a\0b", 3)); },
      [](v1::Checkpoint& c) { c.mutable_files(0)->set_name(c.files(1).name()); },
      [](v1::Checkpoint& c) { c.mutable_files(0)->set_size_bytes(-1); },
      [](v1::Checkpoint& c) { c.mutable_files(0)->set_size_bytes(INT64_MAX); },
      [](v1::Checkpoint& c) { c.mutable_files(0)->set_sha256("../../x"); },
      [](v1::Checkpoint& c) { c.clear_files(); },
  };
  for (const auto& lie : lies) {
    server_.checkpoints.checkpoints[kName] = honest;
    lie(server_.checkpoints.checkpoints[kName]);
    const auto checkpoint = Run();
    EXPECT_TRUE(absl::IsInvalidArgument(checkpoint.status())) << checkpoint.status();
    EXPECT_TRUE(fs_.List(parent_)->empty());
  }
}

TEST_F(CheckpointDownloadTest, ACheckpointLargerThanTheDiskIsRefusedBeforeReading) {
  server_.checkpoints.checkpoints[kName].mutable_files(2)->set_size_bytes(int64_t{1} << 45);
  const auto checkpoint = Run();
  EXPECT_TRUE(absl::IsResourceExhausted(checkpoint.status())) << checkpoint.status();
  EXPECT_THAT(std::string(checkpoint.status().message()), HasSubstr("make room"));
  EXPECT_EQ(server_.checkpoints.reads, 0);
}

TEST_F(CheckpointDownloadTest, AnUnknownCheckpointIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(
      DownloadCheckpoint(*client_, "jobs/a/checkpoints/best", folder_, {}).status()));
}

}  // namespace
}  // namespace lorsa::client
