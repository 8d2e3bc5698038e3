// What the parts of this folder are set up with.
#ifndef LORSA_SERVER_JOBS_JOB_ENVIRONMENT_H_
#define LORSA_SERVER_JOBS_JOB_ENVIRONMENT_H_

#include <functional>
#include <string>

#include "absl/time/time.h"
#include "base/file_system.h"
#include "base/hard_link.h"
#include "base/monotonic_clock.h"
#include "base/random_bytes.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_kind.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/job_watch.h"
#include "server/jobs/launcher.h"
#include "server/model/data_layout.h"

namespace lorsa::server {

struct JobOptions {
  // What jobs that hold a slot may take together.
  JobCapacity capacity;
  // How often processes, deadlines and the queue are looked at.
  absl::Duration poll_interval = absl::Milliseconds(500);
  // How often jobs that have outlived their ttl are looked for, and a removal that failed is tried
  // again.
  absl::Duration tidy_interval = absl::Seconds(10);
  // A worker that sends nothing for so long (before its hello, between heartbeats, or after the
  // connection broke or the server restarted) is killed and counts as lost. Time in which the
  // server handles a message of it, or is deaf, does not count.
  absl::Duration silence_timeout = absl::Seconds(60);
  // From CancelJob to SIGKILL.
  absl::Duration cancel_grace = absl::Seconds(30);
  // Recoveries without a new scheduled checkpoint between them; one more loss and the job FAILED.
  int max_recoveries = 5;
  // Attempts, one after the other, whose worker was lost before it said hello; with so many the job
  // FAILED: what keeps a program from starting seldom passes.
  int max_startup_failures = 3;
  // A worker that reports no new step and no other progress for so long is stuck, unless the job's
  // policy says otherwise.
  absl::Duration step_timeout = absl::Hours(1);
  // Before the first recovery; doubles with each further one, up to max_backoff.
  absl::Duration first_backoff = absl::Seconds(1);
  absl::Duration max_backoff = absl::Seconds(60);
  // HOST:PORT at which workers reach the server from machines that do not share its disk; empty =
  // they share it.
  std::string worker_endpoint;
  // Of the server, told to workers.
  std::string server_version;
};

// What comes from outside; outlives whoever is given it. The functions may be called from any
// thread.
struct JobEnvironment {
  Catalog& catalog;
  FileSystem& fs;
  Launcher& launcher;
  JobWatchHub& watchers;
  const JobKinds& kinds;
  DataLayout layout;
  // For what is stored: when things happened, and the backoff, which outlives the process.
  std::function<absl::Time()> now;
  // For deadlines within the process: no clock that is set and no laptop that sleeps makes a worker
  // look silent.
  std::function<absl::Duration()> uptime = MonotonicNow;
  std::function<std::string(size_t)> random_bytes = SystemRandomBytes;
  // As HardLink.
  std::function<absl::Status(const std::string& from, const std::string& to)> link = HardLink;
  // Why no attempt may be launched just now (the disk is nearly full); empty if one may.
  std::function<std::string()> launch_obstacle = [] { return std::string(); };
  // Whether the server turns connections away just now, so that a worker may be unable to come
  // back.
  std::function<bool()> is_deaf = [] { return false; };
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_JOB_ENVIRONMENT_H_
