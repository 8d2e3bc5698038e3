// Following a job until it ends, across restarts of the server.
#ifndef LORSA_CLIENT_JOB_WATCH_H_
#define LORSA_CLIENT_JOB_WATCH_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "lorsa/client/client.h"
#include "lorsa/v1/job.pb.h"

namespace lorsa::client {

// SUCCEEDED, FAILED and CANCELLED: states that a job never leaves.
bool IsFinal(v1::JobState state);

// Called on the thread that watches; each may be empty.
struct WatchCallbacks {
  // The job as it is, first; again after each reconnection.
  std::function<void(const v1::Job&)> on_job;
  // Each event after the revision that the watch began with, once, in order.
  std::function<void(const v1::JobEvent&)> on_event;
  std::function<void(const v1::JobProgress&)> on_progress;
  OutageFunction on_outage;
};

// Blocks until the job has ended and returns its final state. Reconnects by itself, from the last
// event on. `name` is jobs/{job}. NOT_FOUND if there is no such job, DATA_LOSS if the server
// leaves events out.
absl::StatusOr<v1::JobState> WatchJob(Client& client, const std::string& name,
                                      int64_t after_revision, const WatchCallbacks& callbacks);

}  // namespace lorsa::client

#endif  // LORSA_CLIENT_JOB_WATCH_H_
