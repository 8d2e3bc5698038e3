#include "server/services/file_uploads.h"

#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/failing_file_system.h"
#include "base/scratch_folder.h"
#include "base/sha256.h"

namespace lorsa::server {
namespace {

class FileUploadsTest : public ::testing::Test {
 protected:
  IncomingFile File(int64_t offset) const {
    return {.folder = scratch_.Path("set"),
            .name = "shard",
            .size_bytes = static_cast<int64_t>(contents_.size()),
            .sha256 = Sha256Hex(contents_),
            .offset = offset};
  }

  // What is there of the file is sent on, in pieces of 4 bytes.
  absl::StatusOr<v1::UploadedFile> Send(FileSystem& fs) {
    FileUploads uploads(fs, /*disk_reserve_bytes=*/0);
    const auto here = uploads.Describe(scratch_.Path("set"), [](const auto&) { return true; });
    if (!here.ok()) return here.status();
    const bool begun = here->files_size() > 0;
    int64_t offset = begun ? here->files(0).received_bytes() : 0;
    auto receiver = uploads.Receive(File(offset));
    if (!receiver.ok()) return receiver.status();
    while (offset < static_cast<int64_t>(contents_.size())) {
      v1::UploadData piece;
      piece.set_data(contents_.substr(static_cast<size_t>(offset), 4));
      piece.set_crc32c(Crc32c(piece.data()));
      if (absl::Status status = (*receiver)->Append(piece); !status.ok()) return status;
      offset += static_cast<int64_t>(piece.data().size());
    }
    return (*receiver)->Finish();
  }

  const ScratchFolder scratch_;
  const std::string contents_ = "bytes of a shard";
  PosixFileSystem posix_;
};

TEST_F(FileUploadsTest, WhicheverStepFailsTheNextCallGoesOnAndEndsWell) {
  int failures = 0;
  for (const char* operation :
       {"create", "append", "sync", "close", "open", "syncdir", "rename", "mkdir", "list"}) {
    for (int successes = 0;; ++successes) {
      ASSERT_TRUE(posix_.RemoveAll(scratch_.Path("set")).ok());
      FailingFileSystem failing(operation, successes);
      const auto sent = Send(failing);
      if (!failing.failed()) break;
      ++failures;
      EXPECT_TRUE(absl::IsResourceExhausted(sent.status())) << operation << " " << sent.status();
      const auto again = Send(posix_);
      ASSERT_TRUE(again.ok()) << operation << " " << successes << ": " << again.status();
      EXPECT_TRUE(again->complete());
      EXPECT_EQ(ReadFile(posix_, scratch_.Path("set/shard"), 100).value(), contents_);
    }
  }
  EXPECT_GT(failures, 12);
}

// A longer file of the same name that was cut off could neither be gone on with nor replaced.
TEST_F(FileUploadsTest, WhatIsThereOfALongerFileIsDropped) {
  ASSERT_TRUE(posix_.CreateDirectories(scratch_.Path("set")).ok());
  ASSERT_TRUE(
      WriteFileAtomically(posix_, scratch_.Path("set/upload-shard"), contents_ + "more").ok());
  FileUploads uploads(posix_, /*disk_reserve_bytes=*/0);
  EXPECT_TRUE(uploads.Receive(File(/*offset=*/0)).ok());
  EXPECT_TRUE(Send(posix_)->complete());
}

// The rename may be lost with the power until the folder is fsynced; a call that found the renamed
// file answered at once that it was on the disk.
TEST_F(FileUploadsTest, AFileIsCompleteOnlyOnceItsFolderIsFsynced) {
  FailingFileSystem after_rename("syncdir", /*successes=*/1);
  EXPECT_TRUE(absl::IsResourceExhausted(Send(after_rename).status()));
  ASSERT_TRUE(posix_.Exists(scratch_.Path("set/shard")).value());
  FailingFileSystem still("syncdir");
  EXPECT_TRUE(absl::IsResourceExhausted(Send(still).status()));
  EXPECT_TRUE(Send(posix_)->complete());
}

}  // namespace
}  // namespace lorsa::server
