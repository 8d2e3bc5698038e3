#include "server/jobs/job_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lorsa::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kGiB = int64_t{1} << 30;

JobRecord Job(const std::string& id, int cpu_slots, int64_t gibibytes = 0) {
  JobRecord record{.id = id};
  record.job.set_name(absl::StrCat("jobs/", id));
  record.job.set_cpu_slots(cpu_slots);
  record.job.set_memory_bytes(gibibytes * kGiB);
  return record;
}

JobQueue Queue(const JobCapacity& capacity, const std::vector<JobRecord>& active,
               const std::vector<JobRecord>& queued) {
  JobQueue queue(capacity, active);
  for (const JobRecord& job : queued) {
    if (!queue.Add(job)) break;
  }
  return queue;
}

std::vector<std::string> Starting(const JobQueue& queue) {
  std::vector<std::string> ids;
  for (const JobRecord& job : queue.starting()) ids.push_back(job.id);
  return ids;
}

TEST(JobQueueTest, StartsInOrderWhatFitsTogether) {
  const std::vector<JobRecord> queued = {Job("a", 2), Job("b", 1), Job("c", 1)};
  const JobQueue queue = Queue({.max_running_jobs = 9, .cpu_slots = 4}, {}, queued);
  EXPECT_THAT(Starting(queue), ElementsAre("a", "b", "c"));
  EXPECT_EQ(queue.WaitingOf(queued[0].job), Waiting{});
}

// The job was started three times, then FAILED.
TEST(JobQueueTest, JobsOfSeveralRanksWaitForMpirunAndHoldUpNobody) {
  std::vector<JobRecord> queued = {Job("ranked", 2), Job("single", 1)};
  queued[0].job.mutable_resolved_spec()->mutable_training()->set_ranks(2);
  JobQueue queue({.max_running_jobs = 9}, {}, [](const v1::Job& job) -> std::optional<Waiting> {
    if (job.resolved_spec().training().ranks() < 2) return std::nullopt;
    return Waiting{"MPIRUN_MISSING", "no mpirun"};
  });
  for (const JobRecord& job : queued) EXPECT_TRUE(queue.Add(job));
  EXPECT_THAT(Starting(queue), ElementsAre("single"));
  EXPECT_EQ(queue.WaitingOf(queued[0].job), (Waiting{"MPIRUN_MISSING", "no mpirun"}));
}

TEST(JobQueueTest, CpuSlotsOfWhatRunsCount) {
  const std::vector<JobRecord> queued = {Job("b", 2)};
  const JobQueue queue = Queue({.max_running_jobs = 9, .cpu_slots = 4}, {Job("a", 3)}, queued);
  EXPECT_THAT(Starting(queue), ElementsAre());
  EXPECT_EQ(queue.WaitingOf(queued[0].job).reason, "CPU_SLOTS");
  EXPECT_THAT(queue.WaitingOf(queued[0].job).message, HasSubstr("1 of 4 are free"));
}

TEST(JobQueueTest, MemoryOfWhatRunsCounts) {
  const std::vector<JobRecord> queued = {Job("b", 1, 3), Job("c", 1, 1)};
  const JobQueue queue =
      Queue({.max_running_jobs = 9, .memory_bytes = 8 * kGiB}, {Job("a", 1, 6)}, queued);
  EXPECT_THAT(Starting(queue), ElementsAre());
  EXPECT_EQ(queue.WaitingOf(queued[0].job).reason, "MEMORY");
  EXPECT_THAT(queue.WaitingOf(queued[0].job).message, HasSubstr("2.00 GiB of 8.00 GiB"));
}

TEST(JobQueueTest, NothingOvertakesTheFirstThatDoesNotFit) {
  const std::vector<JobRecord> queued = {Job("a", 1), Job("large", 4), Job("small", 1)};
  const JobQueue queue = Queue({.max_running_jobs = 9, .cpu_slots = 4}, {}, queued);
  EXPECT_THAT(Starting(queue), ElementsAre("a"));
  const Waiting waiting = queue.WaitingOf(queued[2].job);
  EXPECT_EQ(waiting.reason, "EARLIER_JOBS");
  EXPECT_THAT(waiting.message, HasSubstr("jobs/large"));
  // So does one that was not looked at.
  EXPECT_EQ(queue.WaitingOf(Job("later", 1).job).reason, "EARLIER_JOBS");
}

TEST(JobQueueTest, OneThatCouldNeverStartIsPassedOver) {
  const std::vector<JobRecord> queued = {Job("too large", 5), Job("too fat", 1, 9), Job("b", 1)};
  const JobQueue queue =
      Queue({.max_running_jobs = 9, .cpu_slots = 4, .memory_bytes = 8 * kGiB}, {}, queued);
  EXPECT_THAT(Starting(queue), ElementsAre("b"));
  EXPECT_EQ(queue.WaitingOf(queued[0].job).reason, "LARGER_THAN_MACHINE");
  EXPECT_EQ(queue.WaitingOf(queued[1].job).reason, "LARGER_THAN_MACHINE");
}

TEST(JobQueueTest, NoMoreThanSoManyRunAtOnce) {
  const std::vector<JobRecord> queued = {Job("b", 1), Job("c", 1)};
  const JobQueue queue = Queue({.max_running_jobs = 2}, {Job("a", 1)}, queued);
  EXPECT_THAT(Starting(queue), ElementsAre("b"));
  EXPECT_EQ(queue.WaitingOf(queued[1].job).reason, "MAX_RUNNING_JOBS");
}

TEST(JobQueueTest, WithoutLimitsOnlyTheirNumberCounts) {
  const std::vector<JobRecord> queued = {Job("a", 1000, 1000), Job("b", 1000, 1000)};
  EXPECT_THAT(Starting(Queue({.max_running_jobs = 2}, {}, queued)), ElementsAre("a", "b"));
}

}  // namespace
}  // namespace lorsa::server
