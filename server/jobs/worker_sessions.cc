#include "server/jobs/worker_sessions.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "base/worker_protocol.h"
#include "server/jobs/attempt_endings.h"
#include "server/jobs/checkpoint_files.h"
#include "server/jobs/job_changes.h"
#include "server/jobs/log_reader.h"
#include "server/model/job_state.h"
#include "server/model/spec_facts.h"

namespace lorsa::server {
namespace {

// As documented in the protos.
constexpr int kMaxPointsPerBatch = 256;
constexpr size_t kMaxValuesPerPoint = 64;
constexpr size_t kMaxNameBytes = 64;  // of a metric, a value of progress, a phase
constexpr int kMaxProgressValues = 32;
constexpr size_t kMaxUnitBytes = 32;
constexpr size_t kMaxProgramBytes = 128;
constexpr size_t kMaxConditionBytes = 64;
constexpr size_t kMaxWarningBytes = 2048;
constexpr size_t kMaxRollbacksBytes = 1 << 20;
constexpr int64_t kMaxTimeSeconds = int64_t{1} << 33;  // The catalog keeps nanoseconds in 64 bits.

absl::Status CheckPoint(const v1::MetricPoint& point) {
  if (point.kind() != v1::METRIC_KIND_TRAINING && point.kind() != v1::METRIC_KIND_EVALUATION) {
    return absl::InvalidArgumentError("a metric point needs a kind");
  }
  if (point.step() < 0 || point.tokens() < 0) {
    return absl::InvalidArgumentError("a metric point needs a step and tokens of 0 or more");
  }
  if (point.time().seconds() < 0 || point.time().seconds() > kMaxTimeSeconds) {
    return absl::InvalidArgumentError("the time of a metric point is out of range");
  }
  if (point.values().size() > kMaxValuesPerPoint) {
    return absl::InvalidArgumentError(
        absl::StrCat("a metric point holds at most ", kMaxValuesPerPoint, " values"));
  }
  for (const auto& [name, value] : point.values()) {
    if (name.empty() || name.size() > kMaxNameBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("the name of a metric has 1 to ", kMaxNameBytes, " bytes"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBatch(const v1::MetricBatch& batch) {
  if (batch.number() < 1 || batch.points_size() > kMaxPointsPerBatch) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a metric batch needs a number of 1 or more and at most ", kMaxPointsPerBatch, " points"));
  }
  for (const v1::MetricPoint& point : batch.points()) {
    LORSA_RETURN_IF_ERROR(CheckPoint(point));
  }
  return absl::OkStatus();
}

// The catalog's ABORTED, as the worker knows it.
absl::Status AsStaleAttempt(absl::Status status, const AttemptKey& attempt) {
  return absl::IsAborted(status) ? StaleAttempt(attempt) : status;
}

bool IsCurrent(const JobRecord& job, const AttemptKey& attempt) {
  return job.job.attempt() == attempt.attempt && HasWorker(job.job.state());
}

// ABORTED if the job is not STARTING any more. `is_here`: the worker runs on this machine.
JobDecision HelloDecision(const AttemptKey& attempt, const v1::WorkerHello& hello, bool is_here) {
  const ProcessIdentity self{hello.boot_id(), static_cast<pid_t>(hello.pid()), hello.start_ticks()};
  return [=](const JobRecord& job) -> absl::StatusOr<JobChange> {
    if (job.job.attempt() != attempt.attempt || job.job.state() != v1::JOB_STATE_STARTING) {
      return absl::AbortedError("the job is not STARTING any more");
    }
    JobChange change{.state = v1::JOB_STATE_RUNNING, .startup_failures = 0};
    // Normally the launcher's word stands; a crash right after the launch lost it.
    if (job.worker.pid == 0 && is_here) change.worker = self;
    return change;
  };
}

JobDecision ConditionDecision(const AttemptKey& attempt, const std::string& waiting_for) {
  return [=](const JobRecord& job) -> absl::StatusOr<JobChange> {
    if (!IsCurrent(job, attempt)) return StaleAttempt(attempt);
    return JobChange{.reason = "CONDITION",
                     .message = waiting_for.empty()
                                    ? "the worker goes on"
                                    : absl::StrCat("the worker waits: ", waiting_for)};
  };
}

JobDecision WarningDecision(const AttemptKey& attempt, const std::string& message) {
  return [=](const JobRecord& job) -> absl::StatusOr<JobChange> {
    if (!IsCurrent(job, attempt)) return StaleAttempt(attempt);
    return JobChange{.reason = "WARNING", .message = message};
  };
}

RetentionPolicy RetentionOf(const v1::JobSpec& resolved) {
  const SpecFacts facts = FactsOf(resolved);
  return {.keep_checkpoints = facts.keep_checkpoints, .keep_every_tokens = facts.keep_every_tokens};
}

// Why a worker that says `hello` cannot run a job of that kind: a clause; empty if it can.
std::string Mismatch(const v1::WorkerHello& hello, const std::string& kind) {
  const std::string program =
      hello.program().empty()
          ? "it"
          : absl::StrCat("it (", Utf8Prefix(hello.program(), kMaxProgramBytes), ")");
  if (hello.protocol() != kWorkerProtocol) {
    return absl::StrCat(program, " speaks version ", hello.protocol(),
                        " of the worker protocol and this server version ", kWorkerProtocol,
                        "; install the worker program of the same release");
  }
  const auto& kinds = hello.kinds();
  if (kinds.empty() || std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) return "";
  return absl::StrCat(program, " runs no jobs of kind '", kind,
                      "'; correct job_kinds in the configuration of the server");
}

absl::Status CheckProgress(const v1::JobProgress& progress) {
  if (progress.values_size() > kMaxProgressValues || progress.phase().size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("progress holds at most ", kMaxProgressValues,
                                                   " values and a phase of ", kMaxNameBytes,
                                                   " bytes"));
  }
  for (const v1::ProgressValue& value : progress.values()) {
    if (value.name().empty() || value.name().size() > kMaxNameBytes ||
        value.unit().size() > kMaxUnitBytes) {
      return absl::InvalidArgumentError(absl::StrCat("a value of progress has a name of 1 to ",
                                                     kMaxNameBytes, " bytes and a unit of at most ",
                                                     kMaxUnitBytes));
    }
  }
  return absl::OkStatus();
}

std::string WaitingForIn(const v1::Heartbeat& heartbeat) {
  return Utf8Prefix(heartbeat.waiting_for(), kMaxConditionBytes);
}

}  // namespace

WorkerSessions::WorkerSessions(const JobOptions& options, const JobEnvironment& environment,
                               LiveAttempts& live, std::function<void()> poke)
    : options_(options),
      env_(environment),
      live_(live),
      poke_(std::move(poke)),
      publisher_(environment) {}

absl::StatusOr<AttemptKey> WorkerSessions::VerifyWorkerToken(absl::string_view token) {
  const absl::StatusOr<FoundAttempt> attempt = env_.catalog.FindAttempt(Sha256Hex(token));
  if (absl::IsNotFound(attempt.status())) {
    return WithReason(absl::UnauthenticatedError("the token belongs to no attempt of a job"),
                      "UNKNOWN_TOKEN");
  }
  LORSA_RETURN_IF_ERROR(attempt.status());
  if (!attempt->is_current) return StaleAttempt(attempt->key);
  return attempt->key;
}

HandlingNeeds WorkerSessions::Arrived(const AttemptKey& attempt, const v1::WorkerMessage& message) {
  // The entry comes before the look at the catalog: whoever ends the attempt after that look
  // removes the entry, and Attach notices.
  if (message.has_hello()) live_.Observe(attempt, env_.uptime());
  live_.BeginHandling(attempt, env_.uptime());
  switch (message.item_case()) {
    case v1::WorkerMessage::kHello:
    case v1::WorkerMessage::kCheckpoint:
    case v1::WorkerMessage::kOutcome:
      return HandlingNeeds::kFiles;
    case v1::WorkerMessage::kWarning:
      return message.warning().has_damaged_step() ? HandlingNeeds::kFiles : HandlingNeeds::kCatalog;
    case v1::WorkerMessage::kHeartbeat:
      return live_.HistorySays(attempt, WaitingForIn(message.heartbeat()))
                 ? HandlingNeeds::kNothing
                 : HandlingNeeds::kCatalog;
    default:
      return HandlingNeeds::kCatalog;
  }
}

absl::Status WorkerSessions::Hello(const AttemptKey& attempt, const v1::WorkerHello& hello,
                                   const std::shared_ptr<WorkerConnection>& connection) {
  const absl::Cleanup handled = [&] { live_.EndHandling(attempt, env_.uptime()); };
  LORSA_RETURN_IF_ERROR(RefuseOtherVersion(attempt, hello));
  const absl::StatusOr<JobRecord> job = BeginSession(attempt, hello);
  if (!job.ok()) {
    if (absl::IsFailedPrecondition(job.status())) live_.End(attempt, job.status());
    return job.status();
  }
  LORSA_ASSIGN_OR_RETURN(const std::optional<v1::ActivationSet> set, SetOf(*job, attempt));
  LORSA_ASSIGN_OR_RETURN(v1::ServerMessage welcome, WelcomeFor(*job, set));
  connection->Send(std::move(welcome));
  if (!live_.Attach(attempt, connection)) return StaleAttempt(attempt);
  poke_();  // A command may stand.
  return absl::OkStatus();
}

// The worker exits when it hears of it. The next attempt starts with the program that is there
// then.
absl::Status WorkerSessions::RefuseOtherVersion(const AttemptKey& attempt,
                                                const v1::WorkerHello& hello) {
  LORSA_ASSIGN_OR_RETURN(const JobRecord job, env_.catalog.GetJob(attempt.job_id));
  const std::string mismatch = Mismatch(hello, job.job.kind());
  if (mismatch.empty()) return absl::OkStatus();
  const Loss loss{.reason = kWorkerVersion, .cause = mismatch, .end = {.time = env_.now()}};
  LORSA_RETURN_IF_ERROR(
      CommitChange(env_, job.id, LossDecision(attempt.attempt, loss, options_)).status());
  const absl::Status refused =
      WithReason(absl::FailedPreconditionError(absl::StrCat("the worker must exit: ", mismatch)),
                 kWorkerVersion, {{"job", job.id}});
  live_.End(attempt, refused);
  return refused;
}

absl::StatusOr<JobRecord> WorkerSessions::BeginSession(const AttemptKey& attempt,
                                                       const v1::WorkerHello& hello) {
  LORSA_ASSIGN_OR_RETURN(JobRecord job, env_.catalog.GetJob(attempt.job_id));
  if (IsCurrent(job, attempt) && job.job.state() == v1::JOB_STATE_STARTING) {
    absl::StatusOr<JobRecord> running = CommitChange(
        env_, attempt.job_id, HelloDecision(attempt, hello, options_.worker_endpoint.empty()));
    if (running.ok()) publisher_.Reconcile(attempt.job_id);  // It has published nothing yet.
    if (!absl::IsAborted(running.status())) return running;
    LORSA_ASSIGN_OR_RETURN(job, env_.catalog.GetJob(attempt.job_id));
  }
  if (!IsCurrent(job, attempt)) return StaleAttempt(attempt);
  return job;
}

absl::StatusOr<std::optional<v1::ActivationSet>> WorkerSessions::SetOf(const JobRecord& job,
                                                                       const AttemptKey& attempt) {
  if (FactsOf(job.job.resolved_spec()).activation_set.empty()) return std::nullopt;
  absl::StatusOr<v1::ActivationSet> set = env_.catalog.SetOfJob(job.job);
  if (set.ok()) return *std::move(set);
  if (!absl::IsFailedPrecondition(set.status())) return set.status();
  v1::WorkerOutcome outcome;
  outcome.set_kind(v1::WorkerOutcome::KIND_FAILED);
  outcome.set_reason(kSetChanged);
  outcome.set_message(std::string(set.status().message()));
  LORSA_RETURN_IF_ERROR(
      CommitChange(env_, job.id,
                   OutcomeDecision(attempt.attempt, outcome, {.time = env_.now()}, options_))
          .status());
  live_.End(attempt, StaleAttempt(attempt));
  return StaleAttempt(attempt);
}

absl::StatusOr<v1::ServerMessage> WorkerSessions::WelcomeFor(
    const JobRecord& job, const std::optional<v1::ActivationSet>& set) const {
  v1::ServerMessage message;
  v1::Welcome& welcome = *message.mutable_welcome();
  welcome.set_protocol(kWorkerProtocol);
  welcome.set_server_version(options_.server_version);
  *welcome.mutable_resolved_spec() = job.job.resolved_spec();
  if (set.has_value()) *welcome.mutable_activation_set() = *set;
  LORSA_ASSIGN_OR_RETURN(const std::vector<std::string> folders,
                         publisher_.PublishedFolders(job.id));
  welcome.mutable_checkpoint_folders()->Assign(folders.begin(), folders.end());
  welcome.set_first_step(job.first_step);
  // A fork has a checkpoint of its own to go on from, and not this copy.
  if (!FactsOf(job.job.resolved_spec()).initial_checkpoint.empty() &&
      job.job.forked_from().empty()) {
    welcome.set_initial_checkpoint_folder(env_.layout.InitialCheckpointFolder(job.id));
  }
  if (!options_.worker_endpoint.empty()) LORSA_RETURN_IF_ERROR(AddWhatIsNotShared(job.id, welcome));
  return message;
}

absl::Status WorkerSessions::AddWhatIsNotShared(const std::string& job_id,
                                                v1::Welcome& welcome) const {
  if (!welcome.initial_checkpoint_folder().empty()) {
    const auto files = ReadCheckpointManifest(env_.fs, welcome.initial_checkpoint_folder());
    // A damaged one is left to the worker, which fails on it if it still has to start from it.
    if (!files.ok() && !IsDamage(files.status())) return files.status();
    if (files.ok()) {
      welcome.mutable_initial_checkpoint_files()->Assign(files->begin(), files->end());
    }
  }
  // Under the lock: an older attempt that is writing them has written them, or finds out that it is
  // over.
  absl::MutexLock lock(&rollbacks_mu_);
  const auto rollbacks = ReadFile(env_.fs, env_.layout.RollbacksFile(job_id), kMaxRollbacksBytes);
  if (absl::IsNotFound(rollbacks.status())) return absl::OkStatus();
  LORSA_RETURN_IF_ERROR(rollbacks.status());
  welcome.set_rollbacks(*rollbacks);
  return absl::OkStatus();
}

void WorkerSessions::NoteTransfer(const AttemptKey& attempt) {
  live_.Transferred(attempt, env_.uptime());
}

absl::Status WorkerSessions::StoreRollbacks(const AttemptKey& attempt, absl::string_view contents) {
  if (contents.empty() || contents.size() > kMaxRollbacksBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a list of rollbacks has 1 to ", kMaxRollbacksBytes, " bytes"));
  }
  absl::MutexLock lock(&rollbacks_mu_);
  LORSA_ASSIGN_OR_RETURN(const JobRecord job, env_.catalog.GetJob(attempt.job_id));
  if (!IsCurrent(job, attempt)) return StaleAttempt(attempt);
  return WriteFileAtomically(env_.fs, env_.layout.RollbacksFile(attempt.job_id), contents);
}

absl::Status WorkerSessions::Handle(const AttemptKey& attempt, const v1::WorkerMessage& message,
                                    WorkerConnection& connection) {
  const absl::Cleanup handled = [&] { live_.EndHandling(attempt, env_.uptime()); };
  switch (message.item_case()) {
    case v1::WorkerMessage::kHeartbeat:
      return HandleHeartbeat(attempt, message.heartbeat());
    case v1::WorkerMessage::kMetrics:
      return HandleMetrics(attempt, message.metrics(), connection);
    case v1::WorkerMessage::kCheckpoint:
      return HandleCheckpoint(attempt, message.checkpoint(), connection);
    case v1::WorkerMessage::kOutcome:
      return HandleOutcome(attempt, message.outcome(), connection);
    case v1::WorkerMessage::kWarning:
      return HandleWarning(attempt, message.warning());
    default:
      return absl::InvalidArgumentError(
          "after hello a worker sends heartbeat, metrics, checkpoint, warning or outcome");
  }
}

absl::Status WorkerSessions::HandleHeartbeat(const AttemptKey& attempt,
                                             const v1::Heartbeat& heartbeat) {
  LORSA_RETURN_IF_ERROR(CheckProgress(heartbeat.progress()));
  if (!live_.SetProgress(attempt, heartbeat.progress(), env_.uptime()))
    return StaleAttempt(attempt);
  const std::string waiting_for = WaitingForIn(heartbeat);
  live_.SetWaitingFor(attempt, waiting_for);
  if (!live_.HistorySays(attempt, waiting_for)) {
    const absl::Status status =
        CommitChange(env_, attempt.job_id, ConditionDecision(attempt, waiting_for)).status();
    if (absl::IsFailedPrecondition(status)) return status;
    // On a full disk the event itself may have to wait; the next heartbeat tries again.
    if (status.ok()) live_.WaitingForRecorded(attempt, waiting_for);
  }
  env_.watchers.Notify(attempt.job_id, kJobProgress);
  return absl::OkStatus();
}

absl::Status WorkerSessions::HandleMetrics(const AttemptKey& attempt, const v1::MetricBatch& batch,
                                           WorkerConnection& connection) {
  LORSA_RETURN_IF_ERROR(CheckBatch(batch));
  LORSA_RETURN_IF_ERROR(
      AsStaleAttempt(env_.catalog.PutMetrics(attempt, batch.number(),
                                             {batch.points().begin(), batch.points().end()}),
                     attempt));
  v1::ServerMessage answer;
  answer.set_metrics_acknowledged(batch.number());
  connection.Send(std::move(answer));
  env_.watchers.Notify(attempt.job_id, kJobMetrics);
  return absl::OkStatus();
}

absl::Status WorkerSessions::HandleCheckpoint(const AttemptKey& attempt,
                                              const v1::CheckpointStaged& staged,
                                              WorkerConnection& connection) {
  LORSA_ASSIGN_OR_RETURN(const JobRecord job, env_.catalog.GetJob(attempt.job_id));
  const absl::Status status =
      publisher_.Publish(attempt, staged, RetentionOf(job.job.resolved_spec()));
  if (absl::IsAborted(status)) return StaleAttempt(attempt);
  v1::ServerMessage answer;
  v1::CheckpointPublished& published = *answer.mutable_checkpoint_published();
  published.set_folder(staged.folder());
  if (!status.ok()) {
    spdlog::warn("event=checkpoint_refused job={} attempt={} step={} error=\"{}\"", attempt.job_id,
                 attempt.attempt, staged.step(), status.ToString());
    published.set_error(std::string(status.message()));
    published.set_retriable(absl::IsResourceExhausted(status) || absl::IsUnavailable(status));
  }
  connection.Send(std::move(answer));
  return absl::OkStatus();
}

// The event is a courtesy: an error of the disk does not end the session.
absl::Status WorkerSessions::HandleWarning(const AttemptKey& attempt,
                                           const v1::WorkerWarning& warning) {
  const std::string message = Utf8Prefix(warning.message(), kMaxWarningBytes);
  const absl::Status told =
      CommitChange(env_, attempt.job_id, WarningDecision(attempt, message)).status();
  if (absl::IsFailedPrecondition(told)) return told;
  if (!warning.has_damaged_step()) return absl::OkStatus();
  const absl::Status removed = publisher_.RemoveIfDamaged(attempt, warning.damaged_step()).status();
  if (absl::IsAborted(removed)) return StaleAttempt(attempt);
  if (!removed.ok()) {
    spdlog::warn("event=damage_not_removed job={} attempt={} step={} error=\"{}\"", attempt.job_id,
                 attempt.attempt, warning.damaged_step(), removed.ToString());
  }
  return absl::OkStatus();
}

absl::Status WorkerSessions::HandleOutcome(const AttemptKey& attempt,
                                           const v1::WorkerOutcome& outcome,
                                           WorkerConnection& connection) {
  const AttemptEnd end{
      .time = env_.now(),
      .log_tail = LogTail(env_.fs, env_.layout.LogFile(attempt.job_id, attempt.attempt))};
  LORSA_RETURN_IF_ERROR(
      CommitChange(env_, attempt.job_id, OutcomeDecision(attempt.attempt, outcome, end, options_))
          .status());
  v1::ServerMessage answer;
  answer.mutable_outcome_recorded();
  connection.Send(std::move(answer));
  connection.End(absl::OkStatus());
  live_.End(attempt, absl::OkStatus());
  poke_();  // A slot may be free.
  return absl::OkStatus();
}

void WorkerSessions::Disconnected(const AttemptKey& attempt, const WorkerConnection* connection) {
  live_.Detach(attempt, connection);
}

}  // namespace lorsa::server
