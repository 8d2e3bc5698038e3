#include "server/catalog/job_table.h"

#include <google/protobuf/util/time_util.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/catalog/set_table.h"
#include "server/model/data_layout.h"
#include "server/model/job_state.h"
#include "server/model/spec_facts.h"

namespace lorsa::server {
namespace {

using google::protobuf::util::TimeUtil;

// The order in which JobFromRow reads.
#define LORSA_JOB_SELECT                                                                     \
  "SELECT jobs.number, jobs.id, spec, resolved_spec, state, reason, message, jobs.attempt,"  \
  " revision, jobs.create_time, start_time, end_time, not_before, recoveries, boot_id, pid," \
  " start_ticks,"                                                                            \
  " (SELECT MAX(step) FROM checkpoints WHERE job = jobs.number AND damage = ''),"            \
  " best.step, best.fvu, policy, deadline, expire_time, startup_failures, memory_bytes,"     \
  " log_tail, forked_from, sweeps.id,"                                                       \
  " EXISTS (SELECT 1 FROM checkpoints WHERE job = jobs.number AND pinned = 1),"              \
  " jobs.kind, jobs.uid"                                                                     \
  " FROM jobs LEFT JOIN attempts ON attempts.job = jobs.number AND"                          \
  " attempts.attempt = jobs.attempt LEFT JOIN sweeps ON sweeps.number = jobs.sweep"          \
  " LEFT JOIN checkpoints AS best ON best.job = jobs.number AND best.step ="                 \
  " (SELECT step FROM checkpoints WHERE job = jobs.number AND fvu IS NOT NULL"               \
  "  AND damage = '' ORDER BY fvu, step DESC LIMIT 1) "

std::string CheckpointName(absl::string_view job_id, int64_t step) {
  return absl::StrCat("jobs/", job_id, "/checkpoints/", CheckpointId(step));
}

// The step of such a name; 0 of an empty one.
int64_t StepOfName(absl::string_view name) {
  int64_t step = 0;
  const absl::string_view digits = name.substr(name.rfind('-') + 1);
  return absl::SimpleAtoi(digits, &step) ? step : 0;
}

// The catalog keeps the message of the kind without the JobSpec around it.
bool ParseSpec(absl::string_view kind, const std::string& bytes, v1::JobSpec& spec) {
  if (kind == kTrainingKind) return spec.mutable_training()->ParseFromString(bytes);
  return spec.mutable_program()->ParseFromString(bytes);
}

std::string SpecBytes(const v1::JobSpec& spec) {
  return spec.has_program() ? spec.program().SerializeAsString()
                            : spec.training().SerializeAsString();
}

absl::Status ReadSpecs(const Statement& row, v1::Job& job) {
  job.set_kind(row.Bytes(29));
  if (ParseSpec(job.kind(), row.Bytes(2), *job.mutable_spec()) &&
      ParseSpec(job.kind(), row.Bytes(3), *job.mutable_resolved_spec())) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("catalog: the specification of ", job.name(),
                                          " is damaged; restore the catalog from a backup"));
}

void ReadTimes(const Statement& row, v1::Job& job) {
  *job.mutable_create_time() = TimeUtil::NanosecondsToTimestamp(row.Int(9));
  if (!row.IsNull(10)) *job.mutable_start_time() = TimeUtil::NanosecondsToTimestamp(row.Int(10));
  if (!row.IsNull(11)) *job.mutable_end_time() = TimeUtil::NanosecondsToTimestamp(row.Int(11));
  if (!row.IsNull(22)) *job.mutable_expire_time() = TimeUtil::NanosecondsToTimestamp(row.Int(22));
}

void ReadCheckpointFields(const Statement& row, absl::string_view id, v1::Job& job) {
  if (!row.IsNull(17)) job.set_latest_checkpoint(CheckpointName(id, row.Int(17)));
  if (row.IsNull(18)) return;
  job.set_best_checkpoint(CheckpointName(id, row.Int(18)));
  job.set_best_fvu(row.Double(19));
}

// What its client may set besides the specification, and what comes of it.
absl::Status ReadPolicy(const Statement& row, v1::Job& job) {
  if (!job.mutable_policy()->ParseFromString(row.Bytes(20))) {
    return absl::DataLossError(absl::StrCat("catalog: the policy of ", job.name(),
                                            " is damaged; restore the catalog from a backup"));
  }
  if (row.IsNull(21)) job.mutable_policy()->clear_deadline();
  job.set_memory_bytes(row.Int(24));
  job.set_cpu_slots(FactsOf(job.resolved_spec()).cpu_slots);
  job.set_log_tail(row.Bytes(25));
  job.set_forked_from(row.Bytes(26));
  if (!row.IsNull(27)) job.set_sweep(absl::StrCat("sweeps/", row.Bytes(27)));
  return absl::OkStatus();
}

absl::StatusOr<StoredJob> JobFromRow(const Statement& row) {
  StoredJob stored;
  stored.number = row.Int(0);
  JobRecord& record = stored.record;
  record.id = row.Bytes(1);
  v1::Job& job = record.job;
  job.set_name(absl::StrCat("jobs/", record.id));
  job.set_uid(row.Bytes(30));
  LORSA_RETURN_IF_ERROR(ReadSpecs(row, job));
  job.set_state(static_cast<v1::JobState>(row.Int(4)));
  job.set_reason(row.Bytes(5));
  job.set_message(row.Bytes(6));
  job.set_attempt(static_cast<int>(row.Int(7)));
  job.set_revision(row.Int(8));
  ReadTimes(row, job);
  if (!row.IsNull(12)) record.not_before = absl::FromUnixNanos(row.Int(12));
  record.recoveries = static_cast<int>(row.Int(13));
  record.worker = {row.Bytes(14), static_cast<pid_t>(row.Int(15)), row.Int(16)};
  ReadCheckpointFields(row, record.id, job);
  LORSA_RETURN_IF_ERROR(ReadPolicy(row, job));
  record.first_step = StepOfName(record.job.forked_from());
  record.startup_failures = static_cast<int>(row.Int(23));
  record.has_pin = row.Int(28) != 0;
  return stored;
}

absl::StatusOr<std::vector<StoredJob>> StoredJobsFromRows(Statement& statement) {
  std::vector<StoredJob> jobs;
  while (true) {
    LORSA_ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) return jobs;
    LORSA_ASSIGN_OR_RETURN(StoredJob job, JobFromRow(statement));
    jobs.push_back(std::move(job));
  }
}

absl::StatusOr<std::vector<JobRecord>> JobsFromRows(Statement& statement) {
  LORSA_ASSIGN_OR_RETURN(std::vector<StoredJob> stored, StoredJobsFromRows(statement));
  std::vector<JobRecord> jobs;
  jobs.reserve(stored.size());
  for (StoredJob& job : stored) jobs.push_back(std::move(job.record));
  return jobs;
}

absl::Status NoSuchJob(absl::string_view id) {
  return absl::NotFoundError(absl::StrCat("there is no job ", id, "; list the jobs to see all"));
}

absl::StatusOr<std::optional<StoredJob>> FindJob(ReadTransaction& transaction,
                                                 absl::string_view id) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(LORSA_JOB_SELECT "WHERE jobs.id = ?1 AND deleted = 0"));
  LORSA_ASSIGN_OR_RETURN(const bool row, statement.Bind(id).Step());
  if (!row) return std::nullopt;
  LORSA_ASSIGN_OR_RETURN(StoredJob job, JobFromRow(statement));
  return job;
}

absl::Status InsertEvent(WriteTransaction& transaction, const StoredJob& job,
                         const JobChange& change, absl::Time now) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"));
  const v1::Job& before = job.record.job;
  return statement.Bind(job.number)
      .Bind(before.revision() + 1)
      .Bind(absl::ToUnixNanos(now))
      .Bind(static_cast<int64_t>(before.attempt() + (change.new_attempt_token_sha256 ? 1 : 0)))
      .Bind(static_cast<int64_t>(before.state()))
      .Bind(static_cast<int64_t>(change.state.value_or(before.state())))
      .Bind(change.reason)
      .Bind(change.message)
      .Run();
}

absl::Status RemoveAttempt(WriteTransaction& transaction, const StoredJob& job) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("DELETE FROM attempts WHERE job = ?1 AND attempt = ?2"));
  return statement.Bind(job.number).Bind(static_cast<int64_t>(job.record.job.attempt())).Run();
}

absl::Status InsertAttempt(WriteTransaction& transaction, const StoredJob& job,
                           absl::string_view token_sha256, absl::Time now) {
  if (job.record.job.reason() == kUnreachable) {
    LORSA_RETURN_IF_ERROR(RemoveAttempt(transaction, job));
  }
  const auto attempt = static_cast<int64_t>(job.record.job.attempt() + 1);
  {
    LORSA_ASSIGN_OR_RETURN(
        Statement statement,
        transaction.Prepare("INSERT INTO attempts VALUES (?1, ?2, ?3, '', 0, 0, 0)"));
    LORSA_RETURN_IF_ERROR(statement.Bind(job.number).Bind(attempt).Bind(token_sha256).Run());
  }
  LORSA_ASSIGN_OR_RETURN(Statement statement,
                         transaction.Prepare("UPDATE jobs SET attempt = ?2, start_time ="
                                             " COALESCE(start_time, ?3) WHERE number = ?1"));
  return statement.Bind(job.number).Bind(attempt).Bind(absl::ToUnixNanos(now)).Run();
}

absl::Status SetWorker(WriteTransaction& transaction, const StoredJob& job,
                       const ProcessIdentity& worker) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("UPDATE attempts SET boot_id = ?3, pid = ?4, start_ticks = ?5"
                          " WHERE job = ?1 AND attempt = ?2"));
  return statement.Bind(job.number)
      .Bind(static_cast<int64_t>(job.record.job.attempt()))
      .Bind(worker.boot_id)
      .Bind(static_cast<int64_t>(worker.pid))
      .Bind(worker.start_ticks)
      .Run();
}

void BindOrNull(Statement& statement, std::optional<int64_t> value) {
  if (value.has_value()) {
    statement.Bind(*value);
  } else {
    statement.BindNull();
  }
}

// State, and reason and message, which belong to it.
absl::Status SetState(WriteTransaction& transaction, const StoredJob& job, const JobChange& change,
                      absl::Time now) {
  const v1::JobState from = job.record.job.state();
  if (!IsLegalEdge(from, *change.state)) {
    return absl::FailedPreconditionError(absl::StrCat("job ", job.record.id, " is ",
                                                      JobStateName(from), " and cannot become ",
                                                      JobStateName(*change.state)));
  }
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("UPDATE jobs SET state = ?2, reason = ?3, message = ?4,"
                          " end_time = ?5, expire_time = ?6 WHERE number = ?1"));
  statement.Bind(job.number)
      .Bind(static_cast<int64_t>(*change.state))
      .Bind(change.reason)
      .Bind(change.message);
  const bool ended = IsFinal(*change.state);
  BindOrNull(statement, ended ? std::optional(absl::ToUnixNanos(now)) : std::nullopt);
  const v1::JobPolicy& policy = job.record.job.policy();
  BindOrNull(statement, ended && policy.has_ttl()
                            ? std::optional(absl::ToUnixNanos(now) +
                                            TimeUtil::DurationToNanoseconds(policy.ttl()))
                            : std::nullopt);
  return statement.Run();
}

absl::Status SetSchedule(WriteTransaction& transaction, const StoredJob& job,
                         const JobChange& change) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(
          "UPDATE jobs SET not_before = ?2, recoveries = ?3, startup_failures = ?4,"
          " revision = revision + 1, queue_position = CASE WHEN ?5 THEN"
          " (SELECT MAX(queue_position) + 1 FROM jobs) ELSE queue_position END,"
          " deadline = CASE WHEN ?6 THEN NULL ELSE deadline END WHERE number = ?1"));
  const JobRecord& before = job.record;
  const absl::Time not_before = change.not_before.value_or(before.not_before);
  statement.Bind(job.number);
  BindOrNull(statement, not_before == absl::InfinitePast()
                            ? std::nullopt
                            : std::optional(absl::ToUnixNanos(not_before)));
  return statement.Bind(static_cast<int64_t>(change.recoveries.value_or(before.recoveries)))
      .Bind(static_cast<int64_t>(change.startup_failures.value_or(before.startup_failures)))
      .Bind(static_cast<int64_t>(change.to_end_of_queue))
      .Bind(static_cast<int64_t>(change.drop_deadline))
      .Run();
}

absl::Status SetLogTail(WriteTransaction& transaction, const StoredJob& job,
                        absl::string_view tail) {
  LORSA_ASSIGN_OR_RETURN(Statement statement,
                         transaction.Prepare("UPDATE jobs SET log_tail = ?2 WHERE number = ?1"));
  return statement.Bind(job.number).Bind(tail).Run();
}

absl::Status InsertLabels(WriteTransaction& transaction, int64_t number,
                          const v1::JobPolicy& policy) {
  for (const auto& [key, value] : policy.labels()) {
    LORSA_ASSIGN_OR_RETURN(Statement statement,
                           transaction.Prepare("INSERT INTO job_labels VALUES (?1, ?2, ?3)"));
    LORSA_RETURN_IF_ERROR(statement.Bind(number).Bind(key).Bind(value).Run());
  }
  return absl::OkStatus();
}

std::optional<int64_t> DeadlineOf(const v1::JobPolicy& policy) {
  if (!policy.has_deadline()) return std::nullopt;
  return TimeUtil::TimestampToNanoseconds(policy.deadline());
}

absl::Status ReplaceLabels(WriteTransaction& transaction, int64_t number,
                           const v1::JobPolicy& policy) {
  {
    LORSA_ASSIGN_OR_RETURN(Statement statement,
                           transaction.Prepare("DELETE FROM job_labels WHERE job = ?1"));
    LORSA_RETURN_IF_ERROR(statement.Bind(number).Run());
  }
  return InsertLabels(transaction, number, policy);
}

// A ttl counts from the end of the job, which may have been before now.
absl::Status SetPolicy(WriteTransaction& transaction, const StoredJob& job,
                       const v1::JobPolicy& policy) {
  {
    LORSA_ASSIGN_OR_RETURN(
        Statement statement,
        transaction.Prepare("UPDATE jobs SET policy = ?2, priority = ?3, deadline = ?4,"
                            " expire_time = end_time + ?5 WHERE number = ?1"));
    statement.Bind(job.number)
        .BindBlob(policy.SerializeAsString())
        .Bind(static_cast<int64_t>(policy.priority()));
    BindOrNull(statement, DeadlineOf(policy));
    BindOrNull(statement, policy.has_ttl() ? std::optional<int64_t>(
                                                 TimeUtil::DurationToNanoseconds(policy.ttl()))
                                           : std::nullopt);
    LORSA_RETURN_IF_ERROR(statement.Run());
  }
  return ReplaceLabels(transaction, job.number, policy);
}

absl::Status InsertJobRow(WriteTransaction& transaction, const NewJob& job, absl::Time now,
                          std::optional<int64_t> sweep) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(
          "INSERT INTO jobs (id, spec, resolved_spec, request_id, request_sha256, state, reason,"
          " message, attempt, revision, create_time, queue_position, recoveries, policy, priority,"
          " deadline, memory_bytes, forked_from, sweep, kind, uid) VALUES (?1, ?2, ?3, ?4, ?5, ?6,"
          " 'CREATED', '', 0, 1, ?7, (SELECT COALESCE(MAX(queue_position), 0) + 1 FROM jobs), 0,"
          " ?8, ?9, ?10, ?11, ?12, ?13, ?14,"
          " CASE WHEN ?15 = '' THEN lower(hex(randomblob(16))) ELSE ?15 END)"));
  statement.Bind(job.id)
      .BindBlob(SpecBytes(job.spec))
      .BindBlob(SpecBytes(job.resolved_spec))
      .Bind(job.request.id)
      .Bind(job.request.sha256)
      .Bind(static_cast<int64_t>(v1::JOB_STATE_QUEUED))
      .Bind(absl::ToUnixNanos(now))
      .BindBlob(job.policy.SerializeAsString())
      .Bind(static_cast<int64_t>(job.policy.priority()));
  BindOrNull(statement, DeadlineOf(job.policy));
  statement.Bind(job.memory_bytes).Bind(job.forked_from);
  BindOrNull(statement, sweep);
  return statement.Bind(KindOf(job.resolved_spec)).Bind(job.uid).Run();
}

absl::Status InsertCreatedEvent(WriteTransaction& transaction, int64_t number,
                                absl::string_view forked_from, absl::Time now) {
  StoredJob nothing;
  nothing.number = number;
  JobChange created{.state = v1::JOB_STATE_QUEUED, .reason = "CREATED"};
  if (!forked_from.empty()) created.message = absl::StrCat("forked from ", forked_from);
  return InsertEvent(transaction, nothing, created, now);
}

}  // namespace

absl::StatusOr<std::optional<StoredJob>> FindRepeatedJob(ReadTransaction& transaction,
                                                         absl::string_view id,
                                                         const RequestIdentity& request) {
  if (request.id.empty()) return std::nullopt;
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(LORSA_JOB_SELECT "WHERE jobs.id = ?1 AND deleted = 0 AND"
                                           " jobs.request_id = ?2 AND jobs.request_sha256 = ?3"));
  LORSA_ASSIGN_OR_RETURN(const bool row,
                         statement.Bind(id).Bind(request.id).Bind(request.sha256).Step());
  if (!row) return std::nullopt;
  LORSA_ASSIGN_OR_RETURN(StoredJob job, JobFromRow(statement));
  return job;
}

absl::Status CheckIdIsFree(ReadTransaction& transaction, absl::string_view id) {
  LORSA_ASSIGN_OR_RETURN(Statement statement,
                         transaction.Prepare("SELECT deleted FROM jobs WHERE id = ?1"));
  LORSA_ASSIGN_OR_RETURN(const bool row, statement.Bind(id).Step());
  if (!row) return absl::OkStatus();
  if (statement.Int(0) == 0) {
    return absl::AlreadyExistsError(
        absl::StrCat("there is a job ", id, " already; choose another id"));
  }
  return absl::UnavailableError(
      absl::StrCat("a deleted job ", id, " is still being removed; try again in a moment"));
}

absl::StatusOr<InsertedJob> InsertJob(WriteTransaction& transaction, const NewJob& job,
                                      absl::Time now, std::optional<int64_t> sweep) {
  LORSA_ASSIGN_OR_RETURN(std::optional<StoredJob> repeated,
                         FindRepeatedJob(transaction, job.id, job.request));
  if (repeated.has_value()) return InsertedJob{.stored = *std::move(repeated)};
  LORSA_RETURN_IF_ERROR(CheckIdIsFree(transaction, job.id));
  LORSA_RETURN_IF_ERROR(InsertJobRow(transaction, job, now, sweep));
  const int64_t number = transaction.last_insert_rowid();
  LORSA_RETURN_IF_ERROR(InsertLabels(transaction, number, job.policy));
  LORSA_RETURN_IF_ERROR(InsertCreatedEvent(transaction, number, job.forked_from, now));
  LORSA_ASSIGN_OR_RETURN(StoredJob stored, ReadJob(transaction, job.id));
  // The set may have been deleted, and its id given to another, since the job was planned.
  LORSA_RETURN_IF_ERROR(CheckSetOfJob(transaction, stored.record.job));
  return InsertedJob{.stored = std::move(stored), .is_new = true};
}

absl::StatusOr<StoredJob> ReadJob(ReadTransaction& transaction, absl::string_view id) {
  LORSA_ASSIGN_OR_RETURN(std::optional<StoredJob> job, FindJob(transaction, id));
  if (!job.has_value()) return NoSuchJob(id);
  return *std::move(job);
}

absl::StatusOr<int64_t> JobNumber(ReadTransaction& transaction, absl::string_view id) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("SELECT number FROM jobs WHERE id = ?1 AND deleted = 0"));
  LORSA_ASSIGN_OR_RETURN(const bool row, statement.Bind(id).Step());
  if (!row) return NoSuchJob(id);
  return statement.Int(0);
}

absl::StatusOr<std::vector<StoredJob>> ReadJobs(ReadTransaction& transaction,
                                                const JobFilter& filter) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(
          LORSA_JOB_SELECT
          "WHERE jobs.number < ?1 AND (?2 = 0 OR state = ?2) AND deleted = 0 AND NOT EXISTS"
          " (SELECT 1 FROM json_each(?3) AS wanted WHERE NOT EXISTS (SELECT 1 FROM job_labels"
          " WHERE job = jobs.number AND key = wanted.key AND value = wanted.value))"
          " AND (?4 = '' OR sweeps.id = ?4) ORDER BY jobs.number DESC LIMIT ?5"));
  statement.Bind(filter.before == 0 ? std::numeric_limits<int64_t>::max() : filter.before)
      .Bind(static_cast<int64_t>(filter.state))
      .Bind(nlohmann::json(filter.labels).dump())
      .Bind(filter.sweep_id);
  return StoredJobsFromRows(statement.Bind(static_cast<int64_t>(filter.limit)));
}

absl::StatusOr<std::vector<JobRecord>> ReadJobsInState(ReadTransaction& transaction,
                                                       v1::JobState state, int64_t limit) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(LORSA_JOB_SELECT "WHERE state = ?1 AND deleted = 0"
                                           " ORDER BY priority DESC, queue_position LIMIT ?2"));
  return JobsFromRows(statement.Bind(static_cast<int64_t>(state)).Bind(limit));
}

absl::Status VisitJobsInState(ReadTransaction& transaction, v1::JobState state,
                              const std::function<bool(const JobRecord&)>& visit) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(LORSA_JOB_SELECT "WHERE state = ?1 AND deleted = 0"
                                           " ORDER BY priority DESC, queue_position"));
  statement.Bind(static_cast<int64_t>(state));
  while (true) {
    LORSA_ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) return absl::OkStatus();
    LORSA_ASSIGN_OR_RETURN(const StoredJob job, JobFromRow(statement));
    if (!visit(job.record)) return absl::OkStatus();
  }
}

absl::StatusOr<v1::JobState> ReadJobState(ReadTransaction& transaction, int64_t job) {
  LORSA_ASSIGN_OR_RETURN(Statement statement,
                         transaction.Prepare("SELECT state FROM jobs WHERE number = ?1"));
  LORSA_RETURN_IF_ERROR(statement.Bind(job).Step().status());
  return static_cast<v1::JobState>(statement.Int(0));
}

absl::StatusOr<std::map<v1::JobState, int64_t>> CountJobsInStates(ReadTransaction& transaction) {
  LORSA_ASSIGN_OR_RETURN(
      Statement row,
      transaction.Prepare("SELECT state, COUNT(*) FROM jobs WHERE deleted = 0 GROUP BY state"));
  std::map<v1::JobState, int64_t> counts;
  while (true) {
    LORSA_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) return counts;
    counts[static_cast<v1::JobState>(row.Int(0))] = row.Int(1);
  }
}

absl::StatusOr<int64_t> CountJobsInState(ReadTransaction& transaction, v1::JobState state) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("SELECT COUNT(*) FROM jobs WHERE state = ?1 AND deleted = 0"));
  LORSA_RETURN_IF_ERROR(statement.Bind(static_cast<int64_t>(state)).Step().status());
  return statement.Int(0);
}

absl::StatusOr<std::vector<JobRecord>> ReadOverdueJobs(ReadTransaction& transaction, absl::Time now,
                                                       int64_t limit) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(LORSA_JOB_SELECT
                          "WHERE deadline <= ?1 AND end_time IS NULL AND state != ?2"
                          " AND deleted = 0 ORDER BY deadline LIMIT ?3"));
  statement.Bind(absl::ToUnixNanos(now)).Bind(static_cast<int64_t>(v1::JOB_STATE_CANCELLING));
  return JobsFromRows(statement.Bind(limit));
}

absl::StatusOr<std::vector<JobRecord>> ReadExpiredJobs(ReadTransaction& transaction, absl::Time now,
                                                       int64_t limit) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(LORSA_JOB_SELECT
                          "WHERE expire_time <= ?1 AND deleted = 0 AND NOT EXISTS (SELECT 1 FROM"
                          " checkpoints WHERE job = jobs.number AND pinned = 1)"
                          " ORDER BY expire_time LIMIT ?2"));
  return JobsFromRows(statement.Bind(absl::ToUnixNanos(now)).Bind(limit));
}

absl::StatusOr<std::vector<JobRecord>> ReadDeletedJobs(ReadTransaction& transaction,
                                                       int64_t limit) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(LORSA_JOB_SELECT "WHERE deleted = 1 ORDER BY jobs.number LIMIT ?1"));
  return JobsFromRows(statement.Bind(limit));
}

absl::Status MarkDeleted(WriteTransaction& transaction, int64_t job) {
  LORSA_ASSIGN_OR_RETURN(Statement statement,
                         transaction.Prepare("UPDATE jobs SET deleted = 1 WHERE number = ?1"));
  return statement.Bind(job).Run();
}

absl::Status ApplyChange(WriteTransaction& transaction, const StoredJob& job,
                         const JobChange& change, absl::Time now) {
  LORSA_RETURN_IF_ERROR(InsertEvent(transaction, job, change, now));
  if (change.state.has_value()) {
    LORSA_RETURN_IF_ERROR(SetState(transaction, job, change, now));
  }
  if (change.new_attempt_token_sha256.has_value()) {
    LORSA_RETURN_IF_ERROR(InsertAttempt(transaction, job, *change.new_attempt_token_sha256, now));
  }
  if (change.worker.has_value()) {
    LORSA_RETURN_IF_ERROR(SetWorker(transaction, job, *change.worker));
  }
  if (change.log_tail.has_value()) {
    LORSA_RETURN_IF_ERROR(SetLogTail(transaction, job, *change.log_tail));
  }
  if (change.policy.has_value()) {
    LORSA_RETURN_IF_ERROR(SetPolicy(transaction, job, *change.policy));
  }
  return SetSchedule(transaction, job, change);
}

absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(ReadTransaction& transaction, int64_t job,
                                                     int64_t after_revision, int limit) {
  LORSA_ASSIGN_OR_RETURN(
      Statement row,
      transaction.Prepare("SELECT revision, time, attempt, from_state, to_state, reason, message"
                          " FROM events WHERE job = ?1 AND revision > ?2 ORDER BY revision"
                          " LIMIT ?3"));
  row.Bind(job).Bind(after_revision).Bind(static_cast<int64_t>(limit));
  std::vector<v1::JobEvent> events;
  while (true) {
    LORSA_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) return events;
    v1::JobEvent& event = events.emplace_back();
    event.set_revision(row.Int(0));
    *event.mutable_time() = TimeUtil::NanosecondsToTimestamp(row.Int(1));
    event.set_attempt(static_cast<int>(row.Int(2)));
    event.set_from_state(static_cast<v1::JobState>(row.Int(3)));
    event.set_to_state(static_cast<v1::JobState>(row.Int(4)));
    event.set_reason(row.Bytes(5));
    event.set_message(row.Bytes(6));
  }
}

absl::StatusOr<FoundAttempt> ReadAttempt(ReadTransaction& transaction,
                                         absl::string_view token_sha256) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("SELECT id, attempts.attempt, jobs.attempt, state FROM attempts JOIN jobs"
                          " ON job = number WHERE token_sha256 = ?1 AND deleted = 0"));
  LORSA_ASSIGN_OR_RETURN(const bool row, statement.Bind(token_sha256).Step());
  if (!row) return absl::NotFoundError("no attempt has this token");
  return FoundAttempt{.key = {statement.Bytes(0), static_cast<int>(statement.Int(1))},
                      .is_current = statement.Int(1) == statement.Int(2) &&
                                    HasWorker(static_cast<v1::JobState>(statement.Int(3)))};
}

absl::StatusOr<StoredJob> RequireCurrent(ReadTransaction& transaction, const AttemptKey& attempt) {
  LORSA_ASSIGN_OR_RETURN(StoredJob job, ReadJob(transaction, attempt.job_id));
  if (job.record.job.attempt() == attempt.attempt && HasWorker(job.record.job.state())) return job;
  return absl::AbortedError(
      absl::StrCat("attempt ", attempt.attempt, " of job ", attempt.job_id, " is over: the job is ",
                   JobStateName(job.record.job.state()), " in attempt ", job.record.job.attempt()));
}

}  // namespace lorsa::server
