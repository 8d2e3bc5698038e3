#include "server/jobs/job_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lorsa::server {
namespace {

std::string Gibibytes(int64_t bytes) {
  return absl::StrFormat("%.2f GiB", static_cast<double>(bytes) / (1 << 30));
}

// Whether `more` beside `taken` would be above `limit`, 0 of which means none.
bool Exceeds(int64_t taken, int64_t more, int64_t limit) {
  return limit > 0 && taken + more > limit;
}

}  // namespace

std::optional<Waiting> TooLarge(const v1::Job& job, const JobCapacity& capacity) {
  if (Exceeds(0, job.cpu_slots(), capacity.cpu_slots)) {
    return Waiting{"LARGER_THAN_MACHINE",
                   absl::StrCat("it takes ", job.cpu_slots(), " CPU slots (threads × ranks), and ",
                                "jobs here may take ", capacity.cpu_slots, " in all")};
  }
  if (Exceeds(0, job.memory_bytes(), capacity.memory_bytes)) {
    return Waiting{"LARGER_THAN_MACHINE",
                   absl::StrCat("it takes about ", Gibibytes(job.memory_bytes()),
                                " of memory, and jobs here may take ",
                                Gibibytes(capacity.memory_bytes), " in all")};
  }
  return std::nullopt;
}

JobQueue::JobQueue(const JobCapacity& capacity, absl::Span<const JobRecord> active,
                   Obstacle obstacle)
    : capacity_(capacity), launch_obstacle_(std::move(obstacle)) {
  for (const JobRecord& job : active) Take(job.job);
}

bool JobQueue::Add(const JobRecord& queued) {
  if (PassedOver(queued.job).has_value()) return true;
  if (const std::optional<Waiting> obstacle = DoesNotFit(queued.job)) {
    first_waiting_ = queued.job.name();
    obstacle_ = *obstacle;
    return false;
  }
  Take(queued.job);
  starting_.push_back(queued);
  return true;
}

void JobQueue::Take(const v1::Job& job) {
  ++jobs_taken_;
  cpu_slots_taken_ += job.cpu_slots();
  memory_taken_ += job.memory_bytes();
}

std::optional<Waiting> JobQueue::PassedOver(const v1::Job& job) const {
  if (std::optional<Waiting> obstacle = launch_obstacle_(job)) return obstacle;
  return TooLarge(job, capacity_);
}

std::optional<Waiting> JobQueue::DoesNotFit(const v1::Job& job) const {
  if (jobs_taken_ >= capacity_.max_running_jobs) {
    return Waiting{"MAX_RUNNING_JOBS", absl::StrCat(jobs_taken_, " of ", capacity_.max_running_jobs,
                                                    " jobs run, which is all that may at once")};
  }
  if (Exceeds(cpu_slots_taken_, job.cpu_slots(), capacity_.cpu_slots)) {
    return Waiting{"CPU_SLOTS", absl::StrCat("it takes ", job.cpu_slots(), " CPU slots, and ",
                                             capacity_.cpu_slots - cpu_slots_taken_, " of ",
                                             capacity_.cpu_slots, " are free")};
  }
  if (Exceeds(memory_taken_, job.memory_bytes(), capacity_.memory_bytes)) {
    return Waiting{
        "MEMORY", absl::StrCat("it takes about ", Gibibytes(job.memory_bytes()), " of memory, and ",
                               Gibibytes(capacity_.memory_bytes - memory_taken_), " of ",
                               Gibibytes(capacity_.memory_bytes), " are free")};
  }
  return std::nullopt;
}

Waiting JobQueue::WaitingOf(const v1::Job& job) const {
  if (const std::optional<Waiting> passed_over = PassedOver(job)) return *passed_over;
  if (first_waiting_.empty()) return {};
  if (job.name() == first_waiting_) return obstacle_;
  return {"EARLIER_JOBS",
          absl::StrCat("it comes after ", first_waiting_, ", of which: ", obstacle_.message)};
}

}  // namespace lorsa::server
