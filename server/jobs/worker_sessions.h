// The server's half of WorkerService.Session, without the transport.
#ifndef LORSA_SERVER_JOBS_WORKER_SESSIONS_H_
#define LORSA_SERVER_JOBS_WORKER_SESSIONS_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorsa/v1/worker_service.pb.h"
#include "server/catalog/catalog.h"
#include "server/jobs/checkpoint_publisher.h"
#include "server/jobs/job_environment.h"
#include "server/jobs/live_attempts.h"

namespace lorsa::server {

// Methods block on the catalog and the disk; thread-safe, but messages of one connection are handed
// in in order, one at a time.
class WorkerSessions {
 public:
  WorkerSessions(const JobEnvironment& environment, LiveAttempts& live);

  // The attempt that `token` was made for. UNAUTHENTICATED for a token that was never given out.
  // FAILED_PRECONDITION (STALE_ATTEMPT) if the attempt is not its job's current one or is over.
  absl::StatusOr<AttemptKey> Authenticate(absl::string_view token) const;

  // Begins a session: STARTING → RUNNING, sends Welcome and any command that stands. Replaces, and
  // closes, an older connection of the attempt. An error, as all below, ends the session: the
  // caller closes the stream with it.
  absl::Status Hello(const AttemptKey& attempt, const v1::WorkerHello& hello,
                     const std::shared_ptr<WorkerConnection>& connection);
  // A message after hello. Answers go through the connection; after an outcome it is closed.
  absl::Status Handle(const AttemptKey& attempt, const v1::WorkerMessage& message,
                      const std::shared_ptr<WorkerConnection>& connection);
  // The stream has ended, for whatever reason. The job goes on: the worker may come back.
  void Disconnected(const AttemptKey& attempt, const std::shared_ptr<WorkerConnection>& connection);

 private:
  absl::Status Welcome(const JobRecord& record, WorkerConnection& connection);
  absl::Status HandleHeartbeat(const AttemptKey& attempt, const v1::Heartbeat& heartbeat);
  absl::Status HandleMetrics(const AttemptKey& attempt, const v1::MetricBatch& batch,
                             WorkerConnection& connection);
  absl::Status HandleCheckpoint(const AttemptKey& attempt, const v1::CheckpointStaged& staged,
                                WorkerConnection& connection);
  absl::Status HandleOutcome(const AttemptKey& attempt, const v1::WorkerOutcome& outcome,
                             WorkerConnection& connection);

  const JobEnvironment env_;
  LiveAttempts& live_;
  CheckpointPublisher publisher_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_WORKER_SESSIONS_H_
