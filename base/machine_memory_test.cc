#include "base/machine_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/scratch_folder.h"

namespace lorsa {
namespace {

class MachineMemoryTest : public testing::Test {
 protected:
  void SetUp() override { Put("proc/meminfo", "MemTotal:  9000 kB\nMemAvailable:   5000 kB\n"); }
  void Put(const std::string& path, const std::string& text) {
    const std::string full = scratch_.Path(path);
    std::filesystem::create_directories(std::filesystem::path(full).parent_path());
    std::ofstream(full) << text;
  }

  const ScratchFolder scratch_;
};

TEST_F(MachineMemoryTest, TheLimitIsThatOfTheMachineOrOfATighterGroup) {
  EXPECT_EQ(ReadMemoryLimit(scratch_.path()).value(), 9000 * 1024);
  Put("proc/self/cgroup", "0::/a/b\n");
  Put("sys/fs/cgroup/a/b/memory.max", "max\n");
  Put("sys/fs/cgroup/a/memory.max", "100000\n");
  EXPECT_EQ(ReadMemoryLimit(scratch_.path()).value(), 100000);
  Put("proc/self/cgroup", "4:memory:/c\n");
  Put("sys/fs/cgroup/memory/memory.limit_in_bytes", "90000\n");
  EXPECT_EQ(ReadMemoryLimit(scratch_.path()).value(), 90000);
}

TEST_F(MachineMemoryTest, KillsAreThoseOfTheGroupOrElseOfTheMachine) {
  EXPECT_EQ(CountOutOfMemoryKills(scratch_.path()), std::nullopt);
  Put("proc/vmstat", "pgfault 7\noom_kill 5\n");
  EXPECT_EQ(CountOutOfMemoryKills(scratch_.path()), 5);
  Put("proc/self/cgroup", "4:memory:/a\n");
  Put("sys/fs/cgroup/memory/memory.oom_control", "under_oom 0\noom_kill 4\n");
  EXPECT_EQ(CountOutOfMemoryKills(scratch_.path()), 4);
  Put("sys/fs/cgroup/memory/a/memory.oom_control", "under_oom 0\noom_kill 3\n");
  EXPECT_EQ(CountOutOfMemoryKills(scratch_.path()), 3);
  Put("proc/self/cgroup", "0::/b\n");
  Put("sys/fs/cgroup/b/memory.events", "oom 9\noom_kill 2\n");
  EXPECT_EQ(CountOutOfMemoryKills(scratch_.path()), 2);
}

}  // namespace
}  // namespace lorsa
