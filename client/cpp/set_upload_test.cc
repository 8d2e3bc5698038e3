#include "lorsa/client/set_upload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/scratch_folder.h"
#include "client/cpp/testing/fake_services.h"

namespace lorsa::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class SetUploadTest : public testing::Test {
 protected:
  SetUploadTest() {
    client_ = *Client::Create({.server = server_.address(),
                               .initial_backoff = absl::Milliseconds(1),
                               .max_backoff = absl::Milliseconds(2)});
    Write("shard-00000.h5", std::string(3 << 20, 'a'));
    Write("shard-00001.h5", std::string(1000, 'b'));
    Write("notes.txt", "not of the set");
  }
  void Write(const std::string& name, const std::string& bytes) {
    ASSERT_TRUE(WriteFileAtomically(fs_, folder_.Path(name), bytes).ok());
  }
  absl::Status Upload(const UploadCallbacks& callbacks = {}) {
    return UploadSet(*client_, "id", folder_.path(), callbacks);
  }

  ScratchFolder folder_;
  PosixFileSystem fs_;
  FakeServer server_;
  std::unique_ptr<Client> client_;
};

TEST_F(SetUploadTest, SendsTheFilesOfTheSetAlone) {
  Write("manifest.json", "{}");
  std::vector<std::pair<int64_t, int64_t>> progress;
  ASSERT_TRUE(Upload({.on_progress = [&](int64_t done, int64_t total) {
                progress.emplace_back(done, total);
              }}).ok());
  EXPECT_THAT(server_.sets.complete,
              ElementsAre("manifest.json", "shard-00000.h5", "shard-00001.h5"));
  EXPECT_EQ(server_.sets.uploaded["shard-00000.h5"], std::string(3 << 20, 'a'));
  const int64_t total = (3 << 20) + 1000 + 2;
  EXPECT_THAT(progress.back(), Pair(total, total));
}

TEST_F(SetUploadTest, GoesOnAfterABreakWithoutSendingAgainWhatArrived) {
  int pieces = 0;
  server_.sets.before_piece = [&](const std::string&) {
    return ++pieces == 2 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "broken") : grpc::Status::OK;
  };
  int outages = 0;
  const absl::Status status =
      Upload({.on_outage = [&](const absl::Status&, absl::Duration) { ++outages; }});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(outages, 1);
  EXPECT_EQ(server_.sets.bytes_received, (3 << 20) + 1000);
  EXPECT_EQ(server_.sets.uploaded["shard-00000.h5"], std::string(3 << 20, 'a'));
}

// The call whose connection broke may go on at the server for a while, and its bytes arrive between
// the question where to go on and the answer to it.
TEST_F(SetUploadTest, AsksAgainIfTheServerHasMoreThanItSaid) {
  int pieces = 0;
  server_.sets.before_piece = [&](const std::string&) {
    return ++pieces == 2
               ? DetailedError(grpc::StatusCode::ABORTED, "another offset", "OFFSET_MISMATCH")
               : grpc::Status::OK;
  };
  const absl::Status status = Upload();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(server_.sets.uploaded["shard-00000.h5"], std::string(3 << 20, 'a'));
}

TEST_F(SetUploadTest, WhatTheServerHasIsNotSentAgain) {
  ASSERT_TRUE(Upload().ok());
  const int64_t once = server_.sets.bytes_received;
  ASSERT_TRUE(Upload().ok());
  EXPECT_EQ(server_.sets.bytes_received, once);
}

TEST_F(SetUploadTest, AnotherSetUnderTheSameIdIsRefused) {
  ASSERT_TRUE(Upload().ok());
  Write("shard-00001.h5", std::string(1000, 'c'));
  EXPECT_TRUE(absl::IsAlreadyExists(Upload()));
  Write("shard-00001.h5", "short");
  EXPECT_TRUE(absl::IsAlreadyExists(Upload()));
}

TEST_F(SetUploadTest, AFolderWithoutShardsIsNoSet) {
  const ScratchFolder empty;
  const absl::Status status = UploadSet(*client_, "id", empty.path(), {});
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(empty.path()));
}

TEST_F(SetUploadTest, AnErrorOfTheServerEndsIt) {
  server_.sets.before_piece = [](const std::string&) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the disk is full");
  };
  EXPECT_TRUE(absl::IsResourceExhausted(Upload()));
}

}  // namespace
}  // namespace lorsa::client
