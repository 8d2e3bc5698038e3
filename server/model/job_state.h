// The one table of the job state machine: which state may follow which, and what a state means for
// the scheduler. The catalog consults it inside the transaction that writes a change, so what
// commits first wins and no illegal edge can reach the disk.
#ifndef LORSA_SERVER_MODEL_JOB_STATE_H_
#define LORSA_SERVER_MODEL_JOB_STATE_H_

#include <array>

#include "absl/strings/string_view.h"
#include "lorsa/v1/job.pb.h"

namespace lorsa::server {

struct JobEdge {
  v1::JobState from;
  v1::JobState to;
};

// Valid transitions.
//
//   QUEUED      → STARTING    an attempt is launched
//               → CANCELLED   at once: there is no worker to ask
//               → FAILED      its deadline is over
//   STARTING    → RUNNING     the worker said hello
//               → RECOVERING  the worker could not be spawned, died, or never said hello
//               → FAILED      the same, once recoveries are used up
//               → QUEUED      the server drains before the worker said hello
//               → CANCELLING  the client cancels, or the deadline is over; a worker exists and must
//                             be stopped first
//   RUNNING     → SUCCEEDED   the worker's outcome
//               → FAILED      the worker's outcome, or recoveries used up
//               → PAUSING     the client pauses
//               → CANCELLING  the client cancels, or the deadline is over
//               → RECOVERING  the worker was lost
//               → QUEUED      the worker checkpointed and left because the server drains
//   PAUSING     → PAUSED      the worker checkpointed and left; also when it was lost: the client
//                             wanted it stopped, and a resume goes on from the newest checkpoint
//               → SUCCEEDED   the run ended before the worker saw the request
//               → FAILED      the same
//               → CANCELLING  the client cancels meanwhile, or the deadline is over
//   PAUSED      → QUEUED      the client resumes
//               → CANCELLED   at once
//               → FAILED      its deadline is over
//   RECOVERING  → STARTING    the backoff is over; the job has kept its slot
//               → CANCELLED   at once
//               → FAILED      its deadline is over
//   CANCELLING  → CANCELLED   the worker left, was lost or was killed
//               → SUCCEEDED   the run ended before the worker saw the request
//               → FAILED      the same, or it was stopped because of its deadline
//   FAILED      → QUEUED      the client retries
//
// SUCCEEDED, FAILED and CANCELLED are final: nothing leads on from there by itself.
inline constexpr std::array<JobEdge, 28> kJobEdges = {{
    {v1::JOB_STATE_QUEUED, v1::JOB_STATE_STARTING},
    {v1::JOB_STATE_QUEUED, v1::JOB_STATE_CANCELLED},
    {v1::JOB_STATE_QUEUED, v1::JOB_STATE_FAILED},
    {v1::JOB_STATE_STARTING, v1::JOB_STATE_RUNNING},
    {v1::JOB_STATE_STARTING, v1::JOB_STATE_RECOVERING},
    {v1::JOB_STATE_STARTING, v1::JOB_STATE_QUEUED},
    {v1::JOB_STATE_STARTING, v1::JOB_STATE_FAILED},
    {v1::JOB_STATE_STARTING, v1::JOB_STATE_CANCELLING},
    {v1::JOB_STATE_RUNNING, v1::JOB_STATE_SUCCEEDED},
    {v1::JOB_STATE_RUNNING, v1::JOB_STATE_FAILED},
    {v1::JOB_STATE_RUNNING, v1::JOB_STATE_PAUSING},
    {v1::JOB_STATE_RUNNING, v1::JOB_STATE_CANCELLING},
    {v1::JOB_STATE_RUNNING, v1::JOB_STATE_RECOVERING},
    {v1::JOB_STATE_RUNNING, v1::JOB_STATE_QUEUED},
    {v1::JOB_STATE_PAUSING, v1::JOB_STATE_PAUSED},
    {v1::JOB_STATE_PAUSING, v1::JOB_STATE_SUCCEEDED},
    {v1::JOB_STATE_PAUSING, v1::JOB_STATE_FAILED},
    {v1::JOB_STATE_PAUSING, v1::JOB_STATE_CANCELLING},
    {v1::JOB_STATE_PAUSED, v1::JOB_STATE_QUEUED},
    {v1::JOB_STATE_PAUSED, v1::JOB_STATE_CANCELLED},
    {v1::JOB_STATE_PAUSED, v1::JOB_STATE_FAILED},
    {v1::JOB_STATE_RECOVERING, v1::JOB_STATE_STARTING},
    {v1::JOB_STATE_RECOVERING, v1::JOB_STATE_CANCELLED},
    {v1::JOB_STATE_RECOVERING, v1::JOB_STATE_FAILED},
    {v1::JOB_STATE_CANCELLING, v1::JOB_STATE_CANCELLED},
    {v1::JOB_STATE_CANCELLING, v1::JOB_STATE_SUCCEEDED},
    {v1::JOB_STATE_CANCELLING, v1::JOB_STATE_FAILED},
    {v1::JOB_STATE_FAILED, v1::JOB_STATE_QUEUED},
}};

constexpr bool IsLegalEdge(v1::JobState from, v1::JobState to) {
  for (const JobEdge& edge : kJobEdges) {
    if (edge.from == from && edge.to == to) return true;
  }
  return false;
}

// The job has ended; only a client can make it go on, and only one that FAILED.
constexpr bool IsFinal(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED ||
         state == v1::JOB_STATE_CANCELLED;
}

// An attempt is under way: a worker process exists or is about to, and its token is valid.
constexpr bool HasWorker(v1::JobState state) {
  return state == v1::JOB_STATE_STARTING || state == v1::JOB_STATE_RUNNING ||
         state == v1::JOB_STATE_PAUSING || state == v1::JOB_STATE_CANCELLING;
}

// Counts against the server's limit of running jobs. A recovering job keeps its slot, so that a
// waiting one does not overtake it.
constexpr bool HoldsSlot(v1::JobState state) {
  return HasWorker(state) || state == v1::JOB_STATE_RECOVERING;
}

// Reason of a job that is RECOVERING because its attempt never reached its machine.
inline constexpr absl::string_view kUnreachable = "UNREACHABLE";

// "RUNNING".
absl::string_view JobStateName(v1::JobState state);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_MODEL_JOB_STATE_H_
