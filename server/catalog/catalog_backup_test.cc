#include "server/catalog/catalog_backup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/failing_file_system.h"
#include "base/scratch_folder.h"
#include "server/catalog/catalog.h"
#include "server/catalog/schema.h"

namespace lorsa::server {
namespace {

using ::testing::HasSubstr;

class CatalogBackupTest : public ::testing::Test {
 protected:
  CatalogBackupTest() : catalog_(Catalog::Open(Path()).value()) {}

  std::string Path() const { return folder_.Path("catalog.sqlite"); }
  std::string Backup() const { return folder_.Path("backup"); }
  std::string Restored() const { return folder_.Path("restored.sqlite"); }
  void AddJob(const std::string& id) {
    ASSERT_TRUE(catalog_->CreateJob({.id = id}, absl::Now()).ok());
  }

  ScratchFolder folder_;
  PosixFileSystem fs_;
  std::unique_ptr<Catalog> catalog_;
};

TEST_F(CatalogBackupTest, HoldsAllThatWasAcknowledgedWhileTheServerGoesOnWriting) {
  AddJob("before");
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) AddJob(absl::StrCat("during-", i));
  });
  const absl::Status status = BackUpCatalog(fs_, Path(), Backup());
  stop = true;
  writer.join();
  ASSERT_TRUE(status.ok()) << status;
  AddJob("after");
  ASSERT_TRUE(RestoreCatalog(fs_, Backup(), Restored()).ok());
  const auto restored = Catalog::Open(Restored()).value();
  EXPECT_TRUE(restored->GetJob("before").ok());
  EXPECT_TRUE(absl::IsNotFound(restored->GetJob("after").status()));
  EXPECT_TRUE(restored->CreateJob({.id = "new"}, absl::Now()).ok());
}

TEST_F(CatalogBackupTest, ACopySaysThatItIsOne) {
  ASSERT_TRUE(catalog_->SetGeneration(7).ok());
  ASSERT_TRUE(BackUpCatalog(fs_, Path(), Backup()).ok());
  EXPECT_EQ(catalog_->Generation().value(), 7);
  EXPECT_EQ(Catalog::Open(Backup()).value()->Generation().value(), kGenerationOfCopy);
}

TEST_F(CatalogBackupTest, OverwritesNothing) {
  ASSERT_TRUE(BackUpCatalog(fs_, Path(), Backup()).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(BackUpCatalog(fs_, Path(), Backup())));
  EXPECT_TRUE(absl::IsAlreadyExists(RestoreCatalog(fs_, Backup(), Path())));
  std::ofstream(Restored() + "-wal") << "a log without its catalog";
  const absl::Status status = RestoreCatalog(fs_, Backup(), Restored());
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_FALSE(std::filesystem::exists(Restored()));
}

TEST_F(CatalogBackupTest, WhatIsNoCatalogOfThisProgramIsNotRestored) {
  EXPECT_TRUE(absl::IsNotFound(RestoreCatalog(fs_, Backup(), Restored())));
  EXPECT_FALSE(std::filesystem::exists(Backup()));
  std::ofstream(Backup()) << "";
  EXPECT_TRUE(absl::IsFailedPrecondition(RestoreCatalog(fs_, Backup(), Restored())));
  std::ofstream(Backup()) << std::string(8192, 'x');
  EXPECT_TRUE(absl::IsDataLoss(RestoreCatalog(fs_, Backup(), Restored())));
  std::filesystem::remove(Backup());
  ASSERT_TRUE(Connection::Open(Backup()).value()->Execute("PRAGMA user_version = 99").ok());
  const absl::Status newer = RestoreCatalog(fs_, Backup(), Restored());
  EXPECT_TRUE(absl::IsFailedPrecondition(newer)) << newer;
  EXPECT_THAT(std::string(newer.message()), HasSubstr("newer lorsad"));
  EXPECT_FALSE(std::filesystem::exists(Restored()));
}

// A flipped byte in an index goes through VACUUM, which reads the tables alone; the tables' own
// pages do not parse any more.
TEST_F(CatalogBackupTest, DamageInTheCatalogIsFoundInsteadOfCopied) {
  for (int i = 0; i < 200; ++i) AddJob(absl::StrCat("job-", i));
  catalog_.reset();  // moves the log into the file
  std::fstream file(Path(), std::ios::in | std::ios::out | std::ios::binary);
  const auto bytes = static_cast<std::streamoff>(std::filesystem::file_size(Path()));
  for (std::streamoff page = 4096; page < bytes; page += 4096) {
    file.seekp(page);
    file << std::string(64, '\xff');
  }
  file.close();
  const absl::Status status = BackUpCatalog(fs_, Path(), Backup());
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_FALSE(std::filesystem::exists(Backup()));
  EXPECT_FALSE(std::filesystem::exists(Backup() + ".tmp"));
}

TEST_F(CatalogBackupTest, FailuresOfTheDiskLeaveNoCopyBehind) {
  for (const char* operation : {"syncfile", "rename"}) {
    FailingFileSystem failing(operation);
    EXPECT_TRUE(absl::IsResourceExhausted(BackUpCatalog(failing, Path(), Backup()))) << operation;
    EXPECT_FALSE(std::filesystem::exists(Backup())) << operation;
    EXPECT_FALSE(std::filesystem::exists(Backup() + ".tmp")) << operation;
  }
}

}  // namespace
}  // namespace lorsa::server
