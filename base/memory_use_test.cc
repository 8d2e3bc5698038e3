#include "base/memory_use.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/scratch_folder.h"

namespace lorsa {
namespace {

class MemoryUseTest : public testing::Test {
 protected:
  void SetUp() override {
    Put("proc/self/status", "Name:\tx\nVmHWM:\t   300 kB\nVmRSS:\t   200 kB\n");
    Put("proc/meminfo", "MemTotal:  9000 kB\nMemAvailable:   5000 kB\n");
  }
  void Put(const std::string& path, const std::string& text) {
    const std::string full = scratch_.Path(path);
    std::filesystem::create_directories(std::filesystem::path(full).parent_path());
    std::ofstream(full) << text;
  }
  int64_t Available() { return ReadMemoryUse(scratch_.path())->available; }

  const ScratchFolder scratch_;
};

TEST_F(MemoryUseTest, WithoutControlGroupsTheMachineCounts) {
  const auto use = ReadMemoryUse(scratch_.path());
  ASSERT_TRUE(use.ok()) << use.status();
  EXPECT_EQ(use->resident, 200 * 1024);
  EXPECT_EQ(use->peak, 300 * 1024);
  EXPECT_EQ(use->available, 5000 * 1024);
}

TEST_F(MemoryUseTest, TheTightestGroupOfVersionTwoCounts) {
  Put("proc/self/cgroup", "0::/a/b\n");
  Put("sys/fs/cgroup/a/b/memory.max", "max\n");
  Put("sys/fs/cgroup/a/b/memory.current", "1000\n");
  EXPECT_EQ(Available(), 5000 * 1024);
  Put("sys/fs/cgroup/a/memory.max", "100000\n");
  Put("sys/fs/cgroup/a/memory.current", "60000\n");
  EXPECT_EQ(Available(), 40000);
  Put("sys/fs/cgroup/a/memory.stat", "anon 50000\nactive_file 4000\ninactive_file 6000\n");
  EXPECT_EQ(Available(), 50000);
  Put("sys/fs/cgroup/a/b/memory.max", "900\n");  // lowered below what is in use
  EXPECT_EQ(Available(), 0);
}

TEST_F(MemoryUseTest, GroupsOfVersionOneCount) {
  Put("proc/self/cgroup", "5:cpu:/a\n4:memory:/a\n");
  Put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "100000\n");
  Put("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "30000\n");
  EXPECT_EQ(Available(), 70000);
}

TEST_F(MemoryUseTest, ThisMachineTellsPlausibleNumbers) {
  const auto use = ReadMemoryUse();
  ASSERT_TRUE(use.ok()) << use.status();
  EXPECT_GT(use->resident, 1 << 20);
  EXPECT_GE(use->peak, use->resident / 2);
  EXPECT_GT(use->available, 0);
}

}  // namespace
}  // namespace lorsa
