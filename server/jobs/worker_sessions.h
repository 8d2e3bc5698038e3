// The server's half of WorkerService.Session, without the transport.
#ifndef LORSA_SERVER_JOBS_WORKER_SESSIONS_H_
#define LORSA_SERVER_JOBS_WORKER_SESSIONS_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "lorsa/v1/worker_service.pb.h"
#include "server/catalog/catalog.h"
#include "server/jobs/checkpoint_publisher.h"
#include "server/jobs/job_environment.h"
#include "server/jobs/live_attempts.h"
#include "server/rpc/authorization.h"

namespace lorsa::server {

// What the handling of a message may have to wait for.
enum class HandlingNeeds {
  kNothing,
  kCatalog,  // its writer
  kFiles,  // the disk, for as long as it takes to read a whole checkpoint; and the catalog's writer
};

// Methods block on the catalog and the disk, except where they say that they don't. Thread-safe,
// but messages of one connection are handed in in order, one at a time: first to Arrived, then to
// Hello or Handle. An error of Hello or Handle ends the session: the caller ends the stream with
// it.
class WorkerSessions final : public WorkerTokenVerifier {
 public:
  // `poke` makes the scheduler look at the jobs soon; it must not block.
  WorkerSessions(const JobOptions& options, const JobEnvironment& environment, LiveAttempts& live,
                 std::function<void()> poke);

  // UNAUTHENTICATED for a token that was never given out. FAILED_PRECONDITION (STALE_ATTEMPT) if
  // the attempt is not its job's current one or is over.
  absl::StatusOr<AttemptKey> VerifyWorkerToken(absl::string_view token) override;

  // A message has come. The attempt counts as heard from now until Hello or Handle returns for it,
  // however long they have to wait for a thread. Does not block.
  HandlingNeeds Arrived(const AttemptKey& attempt, const v1::WorkerMessage& message);

  // Begins a session: STARTING → RUNNING, sends Welcome; a command that stands follows. Replaces,
  // and closes, an older connection of the attempt. A job whose set is not the one that it was made
  // for is FAILED instead (SET_CHANGED), and the worker told that its attempt is over.
  absl::Status Hello(const AttemptKey& attempt, const v1::WorkerHello& hello,
                     const std::shared_ptr<WorkerConnection>& connection);
  // A message after hello. Answers go through the connection, which is closed after an outcome.
  absl::Status Handle(const AttemptKey& attempt, const v1::WorkerMessage& message,
                      WorkerConnection& connection);
  // The stream has ended, for whatever reason. The job goes on: the worker may come back.
  void Disconnected(const AttemptKey& attempt, const WorkerConnection* connection);

  // A piece of a file has come from the attempt: it is neither silent nor stuck.
  void NoteTransfer(const AttemptKey& attempt);

  // Replaces the list of rollbacks of the attempt's job by what a worker that does not share the
  // disk wrote; durable on OK. INVALID_ARGUMENT if it is too long; FAILED_PRECONDITION as above.
  absl::Status StoreRollbacks(const AttemptKey& attempt, absl::string_view contents);

  // The one that owns all folders of checkpoints.
  CheckpointPublisher& publisher() { return publisher_; }

 private:
  // The job, RUNNING or further, if the attempt is current.
  absl::StatusOr<JobRecord> BeginSession(const AttemptKey& attempt, const v1::WorkerHello& hello);
  // The set of the job. If it has changed, the job is FAILED and the error is StaleAttempt.
  absl::Status RefuseOtherVersion(const AttemptKey& attempt, const v1::WorkerHello& hello);
  // Nothing for a job that reads none.
  absl::StatusOr<std::optional<v1::ActivationSet>> SetOf(const JobRecord& job,
                                                         const AttemptKey& attempt);
  absl::StatusOr<v1::ServerMessage> WelcomeFor(const JobRecord& job,
                                               const std::optional<v1::ActivationSet>& set) const;
  // What a worker that shares the disk finds there itself.
  absl::Status AddWhatIsNotShared(const std::string& job_id, v1::Welcome& welcome) const;
  absl::Status HandleHeartbeat(const AttemptKey& attempt, const v1::Heartbeat& heartbeat);
  absl::Status HandleMetrics(const AttemptKey& attempt, const v1::MetricBatch& batch,
                             WorkerConnection& connection);
  absl::Status HandleCheckpoint(const AttemptKey& attempt, const v1::CheckpointStaged& staged,
                                WorkerConnection& connection);
  absl::Status HandleWarning(const AttemptKey& attempt, const v1::WorkerWarning& warning);
  absl::Status HandleOutcome(const AttemptKey& attempt, const v1::WorkerOutcome& outcome,
                             WorkerConnection& connection);

  const JobOptions options_;
  const JobEnvironment env_;
  LiveAttempts& live_;
  const std::function<void()> poke_;
  CheckpointPublisher publisher_;
  mutable absl::Mutex rollbacks_mu_;  // held while a list of rollbacks is written or read
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_WORKER_SESSIONS_H_
