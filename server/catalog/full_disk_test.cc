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

 private:
  std::string folder_;
  bool mounted_;
};

TEST(FullDiskTest, WritesFailAsAWholeAndWorkAgainWhenThereIsRoom) {
  const SmallDisk disk;
  ASSERT_TRUE(disk.mounted()) << "this test mounts a tmpfs and must run as root";
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
