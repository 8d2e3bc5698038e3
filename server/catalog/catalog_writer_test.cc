#include "server/catalog/catalog_writer.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/notification.h"
#include "base/scratch_folder.h"

namespace lorsa::server {
namespace {

// As on a full disk, SQLite rolls the whole transaction back.
absl::Status FailOnFullDisk(WriteTransaction& transaction) {
  absl::StatusOr<Statement> rollback = transaction.Prepare("ROLLBACK");
  EXPECT_TRUE(rollback.ok() && rollback->Run().ok());
  return absl::ResourceExhaustedError("the disk is full");
}

// A look at a disk that had room took away what a write found just after the look. Which of the two
// threads came first was chance, so this tries often.
TEST(CatalogWriterTest, AProblemAfterALookStays) {
  const ScratchFolder folder;
  for (int i = 0; i < 500; ++i) {
    absl::Notification looking;
    absl::Notification about_to_write;
    CatalogWriter writer(absl::UnavailableError("not open yet"), [&] {
      looking.Notify();
      about_to_write.WaitForNotification();
      return Connection::Open(folder.Path("catalog.sqlite"));
    });
    std::thread other([&] {
      looking.WaitForNotification();
      about_to_write.Notify();
      EXPECT_TRUE(absl::IsResourceExhausted(writer.Write(FailOnFullDisk)));
    });
    EXPECT_TRUE(writer.CheckWritable().ok());
    other.join();
    ASSERT_TRUE(absl::IsResourceExhausted(writer.problem())) << "after " << i << " tries";
  }
}

}  // namespace
}  // namespace lorsa::server
