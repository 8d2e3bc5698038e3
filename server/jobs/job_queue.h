// Which of the queued jobs start, and why the others wait. Pure decisions.
#ifndef LORSA_SERVER_JOBS_JOB_QUEUE_H_
#define LORSA_SERVER_JOBS_JOB_QUEUE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "lorsa/v1/job.pb.h"
#include "server/catalog/catalog.h"

namespace lorsa::server {

// What all jobs that hold a slot (job_state.h) may take together.
struct JobCapacity {
  int max_running_jobs = 1;
  int64_t cpu_slots = 0;     // threads × ranks; 0 = any number
  int64_t memory_bytes = 0;  // as expected of each; 0 = any
};

// Why a job cannot start now.
struct Waiting {
  std::string reason;   // as Job.waiting_for; empty: nothing stands in its way
  std::string message;  // one sentence

  bool operator==(const Waiting&) const = default;
};

// Set, with the reason LARGER_THAN_MACHINE, if the job would not fit even alone.
std::optional<Waiting> TooLarge(const v1::Job& job, const JobCapacity& capacity);

// The queue at one moment. Jobs start strictly in its order, so that a large one is never starved:
// the first that does not fit holds up all behind it. Only those that cannot start whatever ends
// are passed over.
class JobQueue {
 public:
  // What keeps a job from being launched, whatever ends; nothing if it can be.
  using Obstacle = std::function<std::optional<Waiting>(const v1::Job& job)>;

  // `active` hold slots.
  JobQueue(
      const JobCapacity& capacity, absl::Span<const JobRecord> active,
      Obstacle obstacle = [](const v1::Job&) { return std::nullopt; });

  // Takes the next of the queued jobs, which come in queue order. False once one of them waits: no
  // later one can start.
  bool Add(const JobRecord& queued);

  // Those that start now, in order.
  const std::vector<JobRecord>& starting() const { return starting_; }
  // Set if the job is passed over: it cannot start, whatever ends.
  std::optional<Waiting> PassedOver(const v1::Job& job) const;
  // Of a QUEUED job, whether it was added or not.
  Waiting WaitingOf(const v1::Job& job) const;

 private:
  // Set if the job does not fit beside what is taken.
  std::optional<Waiting> DoesNotFit(const v1::Job& job) const;
  void Take(const v1::Job& job);

  JobCapacity capacity_;
  Obstacle launch_obstacle_;
  int64_t jobs_taken_ = 0;
  int64_t cpu_slots_taken_ = 0;
  int64_t memory_taken_ = 0;
  std::vector<JobRecord> starting_;
  std::string first_waiting_;  // name; empty if all fit
  Waiting obstacle_;           // of that one
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_JOB_QUEUE_H_
