#include "base/cpu_count.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/scratch_folder.h"

namespace lorsa {
namespace {

// A machine of which this process may use `cpus`, which the test's own machine bounds.
class CpuCountTest : public testing::Test {
 protected:
  void Put(const std::string& path, const std::string& text) {
    const std::string full = scratch_.Path(path);
    std::filesystem::create_directories(std::filesystem::path(full).parent_path());
    std::ofstream(full) << text;
  }
  int Count() const { return UsableCpus(scratch_.path()); }

  const ScratchFolder scratch_;
  const int without_quota_ = UsableCpus(scratch_.path());
};

TEST_F(CpuCountTest, WithoutAGroupItIsTheMachinesOrTheAffinitys) {
  EXPECT_GE(without_quota_, 1);
  EXPECT_LE(without_quota_, sysconf(_SC_NPROCESSORS_ONLN));
}

TEST_F(CpuCountTest, FollowsTheQuotaOfVersion2) {
  Put("proc/self/cgroup", "0::/a/b\n");
  Put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(Count(), without_quota_);
  Put("sys/fs/cgroup/a/b/cpu.max", "100000 100000\n");
  EXPECT_EQ(Count(), 1);
  Put("sys/fs/cgroup/a/b/cpu.max", "6400000 100000\n");
  EXPECT_EQ(Count(), without_quota_);
}

TEST_F(CpuCountTest, AGroupAboveMayBeTighter) {
  Put("proc/self/cgroup", "0::/a/b\n");
  Put("sys/fs/cgroup/a/b/cpu.max", "6400000 100000\n");
  Put("sys/fs/cgroup/a/cpu.max", "50000 50000\n");
  EXPECT_EQ(Count(), 1);
}

// In a container the topmost group that it sees is its own.
TEST_F(CpuCountTest, FollowsTheQuotaOfAContainersTopmostGroup) {
  Put("proc/self/cgroup", "0::/\n");
  Put("sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(Count(), 1);
}

TEST_F(CpuCountTest, FollowsTheQuotaOfVersion1) {
  Put("proc/self/cgroup", "7:cpuset:/\n4:cpu,cpuacct:/docker/c\n0::/\n");
  Put("sys/fs/cgroup/cpu,cpuacct/docker/c/cpu.cfs_period_us", "100000\n");
  Put("sys/fs/cgroup/cpu,cpuacct/docker/c/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(Count(), without_quota_);
  Put("sys/fs/cgroup/cpu,cpuacct/docker/c/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(Count(), 1);
}

TEST_F(CpuCountTest, FollowsTheQuotaOfVersion1WhereOnlyTheContainersGroupIsMounted) {
  Put("proc/self/cgroup", "4:cpu,cpuacct:/docker/c\n");
  Put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  Put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
  EXPECT_EQ(Count(), 1);  // one and a half
}

TEST_F(CpuCountTest, AQuotaOfLessThanOneCpuLeavesOne) {
  Put("proc/self/cgroup", "0::/a\n");
  Put("sys/fs/cgroup/a/cpu.max", "20000 100000\n");
  EXPECT_EQ(Count(), 1);
}

TEST_F(CpuCountTest, WhatIsNoQuotaBoundsNothing) {
  for (const char* text : {"", "max\n", "many 100000\n", "100000 0\n", "100000\n", "-1 100000\n"}) {
    Put("proc/self/cgroup", "0::/a\n");
    Put("sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(Count(), without_quota_) << text;
  }
}

TEST_F(CpuCountTest, FollowsTheAffinity) {
  std::thread([&] {
    cpu_set_t allowed, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    int first = 0;
    while (!CPU_ISSET(first, &allowed)) ++first;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(Count(), 1);
  }).join();
}

}  // namespace
}  // namespace lorsa
