// The catalog on a disk that really fills up: a small tmpfs (tests run as root).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/catalog/catalog.h"

namespace lorsa::server {
namespace {

class SmallDisk {
 public:
  SmallDisk() {
    std::string folder = ::testing::TempDir() + "small_disk_XXXXXX";
    folder_ = ::mkdtemp(folder.data());
    mounted_ = ::mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=1m") == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
    std::filesystem::remove_all(folder_);
  }
  bool mounted() const { return mounted_; }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  // Takes up all that is left.
  void Fill() const {
    const int fd = ::open(Path("ballast").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    for (const std::string block(4096, 'x'); ::write(fd, block.data(), block.size()) > 0;) {
    }
    ::close(fd);
  }
  void Free() const { ::unlink(Path("ballast").c_str()); }
  void SetReadOnly(bool read_only) const {
    ASSERT_EQ(::mount(nullptr, folder_.c_str(), nullptr, MS_REMOUNT | (read_only ? MS_RDONLY : 0),
                      "size=1m"),
              0);
  }

 private:
  std::string folder_;
  bool mounted_;
};

constexpr char kMustBeRoot[] = "this test mounts a tmpfs and must run as root";

bool IsRefusal(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
}

// The catalog with the job `before`, as a server leaves it that ends, or that is killed.
void LeaveCatalog(const SmallDisk& disk, bool killed) {
  const std::string path = disk.Path("catalog.sqlite");
  auto catalog = Catalog::Open(killed ? path + ".live" : path).value();
  ASSERT_TRUE(catalog->CreateJob({.id = "before"}, absl::Now()).ok());
  if (!killed) return;
  for (const char* suffix : {"", "-wal", "-shm"}) {
    std::filesystem::copy(path + ".live" + suffix, path + suffix);
  }
}

void ExpectReadingAlone(Catalog& catalog) {
  EXPECT_TRUE(catalog.GetJob("before").ok());
  EXPECT_TRUE(catalog.CheckReadable().ok());
  EXPECT_TRUE(IsRefusal(catalog.CheckWritable()));
  EXPECT_TRUE(IsRefusal(catalog.CreateJob({.id = "during"}, absl::Now()).status()));
}

void ExpectWriting(Catalog& catalog) {
  const absl::Status writable = catalog.CheckWritable();
  EXPECT_TRUE(writable.ok()) << writable;
  EXPECT_TRUE(catalog.CreateJob({.id = "after"}, absl::Now()).ok());
  EXPECT_TRUE(catalog.GetJob("after").ok());
  EXPECT_TRUE(catalog.GetJob("before").ok());
}

class UnwritableDiskTest : public ::testing::TestWithParam<bool> {};  // killed

// The server did not start, so nobody could delete anything.
TEST_P(UnwritableDiskTest, ACatalogOnAReadOnlyDiskIsReadAndWrittenAgainLater) {
  const SmallDisk disk;
  ASSERT_TRUE(disk.mounted()) << kMustBeRoot;
  LeaveCatalog(disk, GetParam());
  disk.SetReadOnly(true);
  auto catalog = Catalog::Open(disk.Path("catalog.sqlite")).value();
  ExpectReadingAlone(*catalog);
  disk.SetReadOnly(false);
  ExpectWriting(*catalog);
}

INSTANTIATE_TEST_SUITE_P(ClosedAndKilled, UnwritableDiskTest, ::testing::Bool());

TEST(FullDiskTest, ACatalogOnAFullDiskIsReadAndWrittenAgainLater) {
  const SmallDisk disk;
  ASSERT_TRUE(disk.mounted()) << kMustBeRoot;
  LeaveCatalog(disk, /*killed=*/false);
  disk.Fill();
  auto catalog = Catalog::Open(disk.Path("catalog.sqlite")).value();
  ExpectReadingAlone(*catalog);
  disk.Free();
  ExpectWriting(*catalog);
}

TEST(FullDiskTest, ADeletionUsesTheSpareRoom) {
  const SmallDisk disk;
  ASSERT_TRUE(disk.mounted()) << kMustBeRoot;
  LeaveCatalog(disk, /*killed=*/false);
  disk.Fill();
  int asked = 0;
  auto catalog = Catalog::Open(disk.Path("catalog.sqlite"), [&] {
                   ++asked;
                   disk.Free();
                   return true;
                 }).value();
  EXPECT_TRUE(IsRefusal(catalog->CreateJob({.id = "during"}, absl::Now()).status()));
  EXPECT_EQ(asked, 0);
  const absl::Status deleted =
      catalog->DeleteJob("before", [](const JobRecord&) { return absl::OkStatus(); });
  EXPECT_TRUE(deleted.ok()) << deleted;
  EXPECT_EQ(asked, 1);
}

TEST(FullDiskTest, WritesFailAsAWholeAndWorkAgainWhenThereIsRoom) {
  const SmallDisk disk;
  ASSERT_TRUE(disk.mounted()) << kMustBeRoot;
  auto catalog = Catalog::Open(disk.Path("catalog.sqlite")).value();
  NewJob job{.id = "before"};
  ASSERT_TRUE(catalog->CreateJob(job, absl::Now()).ok());
  disk.Fill();

  int stored = 0;
  absl::Status failure;
  for (int i = 0; i < 1000 && failure.ok(); ++i) {
    job.id = absl::StrCat("during-", i);
    failure = catalog->CreateJob(job, absl::Now()).status();
    if (failure.ok()) ++stored;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(failure)) << failure;
  EXPECT_TRUE(catalog->GetJob("before").ok());
  EXPECT_TRUE(absl::IsNotFound(catalog->GetJob(job.id).status()));
  EXPECT_EQ(catalog->CountJobs(v1::JOB_STATE_QUEUED).value(), 1 + stored);

  disk.Free();
  const absl::Status again = catalog->CreateJob(job, absl::Now()).status();
  EXPECT_TRUE(again.ok()) << again;
  EXPECT_EQ(catalog->CountJobs(v1::JOB_STATE_QUEUED).value(), 2 + stored);
}

}  // namespace
}  // namespace lorsa::server
