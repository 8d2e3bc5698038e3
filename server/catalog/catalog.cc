#include "server/catalog/catalog.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/status_macros.h"
#include "server/catalog/catalog_writer.h"
#include "server/catalog/checkpoint_table.h"
#include "server/catalog/connection_pool.h"
#include "server/catalog/data_folder_table.h"
#include "server/catalog/job_removal.h"
#include "server/catalog/job_table.h"
#include "server/catalog/metric_table.h"
#include "server/catalog/notice_table.h"
#include "server/catalog/schema.h"
#include "server/catalog/set_table.h"
#include "server/catalog/sqlite.h"
#include "server/catalog/sweep_table.h"
#include "server/catalog/transaction.h"
#include "server/model/data_layout.h"
#include "server/model/job_state.h"

namespace lorsa::server {
namespace {

constexpr int kMaxActiveJobs = 10'000;

// A write that gives back what it made.
template <typename T>
absl::StatusOr<T> WriteFor(CatalogWriter& writer,
                           const std::function<absl::StatusOr<T>(WriteTransaction&)>& write) {
  absl::StatusOr<T> result = absl::InternalError("the write was not run");
  LORSA_RETURN_IF_ERROR(writer.Write([&](WriteTransaction& transaction) {
    result = write(transaction);
    return result.status();
  }));
  return result;
}

// Whether the disk is why the catalog could not be opened. A file that another program holds locked
// is not read past the lock.
bool TakesNothing(const std::string& path, const absl::Status& status) {
  struct statvfs disk;
  const bool read_only = ::statvfs(path.c_str(), &disk) == 0 && (disk.f_flag & ST_RDONLY) != 0;
  return absl::IsResourceExhausted(status) || (absl::IsUnavailable(status) && read_only);
}

absl::StatusOr<std::unique_ptr<Connection>> OpenForWriting(const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection, Connection::Open(path));
  if (connection->read_only()) {
    return absl::UnavailableError(absl::StrCat("catalog: ", path, " is on a read-only disk"));
  }
  PosixFileSystem fs;  // SQLite does not write through one either.
  LORSA_RETURN_IF_ERROR(PrepareSchema(fs, *connection, path));
  return connection;
}

// OK if the catalog can at least be read, though `obstacle` keeps it from being written.
absl::Status CheckForReading(const std::string& path, const absl::Status& obstacle) {
  const auto connection = Connection::OpenReadOnly(path);
  if (!connection.ok()) return obstacle;
  return CheckReadOnlySchema(**connection, path, obstacle);
}

// A job that is retried or resumed: its set may have been deleted since.
bool ComesBack(v1::JobState before, const JobChange& change) {
  return change.state == v1::JOB_STATE_QUEUED && !HasWorker(before);
}

}  // namespace

CheckpointChoice AtStep(int64_t step) {
  return [step](const std::vector<v1::Checkpoint>&) { return step; };
}

absl::StatusOr<v1::Checkpoint> CheckpointOf(const std::vector<v1::Checkpoint>& checkpoints,
                                            int64_t step, absl::string_view job_id) {
  for (const v1::Checkpoint& checkpoint : checkpoints) {
    if (checkpoint.step() == step) return checkpoint;
  }
  return absl::NotFoundError(absl::StrCat("job ", job_id, " has no checkpoint ", CheckpointId(step),
                                          "; list its checkpoints to see those that it keeps"));
}

Catalog::Catalog(std::unique_ptr<ConnectionPool> readers, std::unique_ptr<CatalogWriter> writer,
                 std::function<bool()> make_room)
    : readers_(std::move(readers)), writer_(std::move(writer)), make_room_(std::move(make_room)) {}

Catalog::~Catalog() = default;

absl::StatusOr<std::unique_ptr<Catalog>> Catalog::Open(const std::string& path,
                                                       std::function<bool()> make_room) {
  absl::StatusOr<std::unique_ptr<Connection>> connection = OpenForWriting(path);
  if (!connection.ok()) {
    if (!TakesNothing(path, connection.status())) return connection.status();
    LORSA_RETURN_IF_ERROR(CheckForReading(path, connection.status()));
  }
  auto readers = std::make_unique<ConnectionPool>(path, /*read_only=*/!connection.ok());
  const auto open = [&pool = *readers] { return pool.OpenForWriting(); };
  auto writer = std::make_unique<CatalogWriter>(std::move(connection), open);
  return std::unique_ptr<Catalog>(
      new Catalog(std::move(readers), std::move(writer), std::move(make_room)));
}

absl::Status Catalog::WriteDeletion(const std::function<absl::Status(WriteTransaction&)>& write) {
  absl::Status status = writer_->Write(write);
  if (!absl::IsResourceExhausted(status) || writer_->problem().ok() || !make_room_()) return status;
  return writer_->Write(write);
}

absl::Status Catalog::CheckWritable() { return writer_->CheckWritable(); }

absl::StatusOr<JobRecord> Catalog::CreateJob(const NewJob& job, absl::Time now) {
  return WriteFor<JobRecord>(
      *writer_, [&](WriteTransaction& transaction) -> absl::StatusOr<JobRecord> {
        LORSA_ASSIGN_OR_RETURN(InsertedJob inserted, InsertJob(transaction, job, now));
        if (!inserted.is_new || !job.first_checkpoint.has_value()) {
          return std::move(inserted.stored.record);
        }
        LORSA_RETURN_IF_ERROR(
            StoreCopiedCheckpoint(transaction, inserted.stored, *job.first_checkpoint, now));
        LORSA_ASSIGN_OR_RETURN(StoredJob stored, ReadJob(transaction, job.id));
        return std::move(stored.record);
      });
}

absl::Status Catalog::CheckJobIdIsFree(absl::string_view id) const {
  return readers_->Run(
      [&](ReadTransaction& transaction) { return CheckIdIsFree(transaction, id); });
}

absl::StatusOr<std::optional<JobRecord>> Catalog::FindRepeatedJob(
    absl::string_view id, const RequestIdentity& request) const {
  return readers_->Run(
      [&](ReadTransaction& transaction) -> absl::StatusOr<std::optional<JobRecord>> {
        LORSA_ASSIGN_OR_RETURN(std::optional<StoredJob> stored,
                               server::FindRepeatedJob(transaction, id, request));
        if (!stored.has_value()) return std::nullopt;
        return std::move(stored->record);
      });
}

absl::StatusOr<JobRecord> Catalog::GetJob(absl::string_view id) const {
  return readers_->Run([&](ReadTransaction& transaction) -> absl::StatusOr<JobRecord> {
    LORSA_ASSIGN_OR_RETURN(StoredJob stored, ReadJob(transaction, id));
    return std::move(stored.record);
  });
}

absl::StatusOr<std::vector<StoredJob>> Catalog::ListJobs(const JobFilter& filter) const {
  return readers_->Run([&](ReadTransaction& transaction) { return ReadJobs(transaction, filter); });
}

absl::StatusOr<std::vector<JobRecord>> Catalog::ActiveJobs() const {
  return readers_->Run([&](ReadTransaction& transaction) -> absl::StatusOr<std::vector<JobRecord>> {
    std::vector<JobRecord> active;
    for (int state = 0; state < v1::JobState_ARRAYSIZE; ++state) {
      if (!HoldsSlot(static_cast<v1::JobState>(state))) continue;
      LORSA_ASSIGN_OR_RETURN(
          std::vector<JobRecord> jobs,
          ReadJobsInState(transaction, static_cast<v1::JobState>(state), kMaxActiveJobs));
      std::move(jobs.begin(), jobs.end(), std::back_inserter(active));
    }
    return active;
  });
}

absl::Status Catalog::VisitQueuedJobs(const std::function<bool(const JobRecord&)>& visit) const {
  return readers_->Run([&](ReadTransaction& transaction) {
    return VisitJobsInState(transaction, v1::JOB_STATE_QUEUED, visit);
  });
}

absl::StatusOr<JobWithCheckpoints> Catalog::GetJobWithCheckpoints(absl::string_view id) const {
  return readers_->Run([&](ReadTransaction& transaction) -> absl::StatusOr<JobWithCheckpoints> {
    LORSA_ASSIGN_OR_RETURN(StoredJob stored, ReadJob(transaction, id));
    LORSA_ASSIGN_OR_RETURN(std::vector<v1::Checkpoint> checkpoints,
                           ReadCheckpoints(transaction, id));
    return JobWithCheckpoints{.job = std::move(stored.record.job),
                              .checkpoints = std::move(checkpoints)};
  });
}

absl::StatusOr<std::map<v1::JobState, int64_t>> Catalog::CountJobsByState() const {
  return readers_->Run([](ReadTransaction& transaction) { return CountJobsInStates(transaction); });
}

absl::StatusOr<int64_t> Catalog::CountJobs(v1::JobState state) const {
  return readers_->Run(
      [&](ReadTransaction& transaction) { return CountJobsInState(transaction, state); });
}

absl::StatusOr<std::vector<JobRecord>> Catalog::OverdueJobs(absl::Time now, int limit) const {
  return readers_->Run(
      [&](ReadTransaction& transaction) { return ReadOverdueJobs(transaction, now, limit); });
}

absl::StatusOr<std::vector<JobRecord>> Catalog::ExpiredJobs(absl::Time now, int limit) const {
  return readers_->Run(
      [&](ReadTransaction& transaction) { return ReadExpiredJobs(transaction, now, limit); });
}

absl::StatusOr<v1::Sweep> Catalog::CreateSweep(const NewSweep& sweep, absl::Time now) {
  return WriteFor<v1::Sweep>(*writer_, [&](WriteTransaction& transaction) {
    return InsertSweep(transaction, sweep, now);
  });
}

absl::StatusOr<std::optional<v1::Sweep>> Catalog::FindRepeatedSweep(
    absl::string_view id, const RequestIdentity& request) const {
  return readers_->Run([&](ReadTransaction& transaction) {
    return server::FindRepeatedSweep(transaction, id, request);
  });
}

absl::StatusOr<v1::Sweep> Catalog::GetSweep(absl::string_view id) const {
  return readers_->Run([&](ReadTransaction& transaction) { return ReadSweep(transaction, id); });
}

absl::StatusOr<std::vector<StoredSweep>> Catalog::ListSweeps(int64_t before, int limit) const {
  return readers_->Run(
      [&](ReadTransaction& transaction) { return ReadSweeps(transaction, before, limit); });
}

absl::Status Catalog::DeleteJob(absl::string_view id, const JobCheck& check) {
  return WriteDeletion([&](WriteTransaction& transaction) -> absl::Status {
    LORSA_ASSIGN_OR_RETURN(const StoredJob job, ReadJob(transaction, id));
    LORSA_RETURN_IF_ERROR(check(job.record));
    return MarkDeleted(transaction, job.number);
  });
}

absl::StatusOr<std::vector<JobRecord>> Catalog::DeletedJobs(int limit) const {
  return readers_->Run(
      [&](ReadTransaction& transaction) { return ReadDeletedJobs(transaction, limit); });
}

absl::StatusOr<bool> Catalog::PurgeJob(absl::string_view id) {
  bool all = false;
  LORSA_RETURN_IF_ERROR(WriteDeletion([&](WriteTransaction& transaction) -> absl::Status {
    LORSA_ASSIGN_OR_RETURN(all, RemoveSomeRows(transaction, id));
    return absl::OkStatus();
  }));
  return all;
}

absl::Status Catalog::CheckReadable() const {
  return readers_->RunUncached([](ReadTransaction& transaction) {
    return CountJobsInState(transaction, v1::JOB_STATE_QUEUED).status();
  });
}

absl::StatusOr<JobRecord> Catalog::UpdateJob(absl::string_view id, absl::Time now,
                                             const JobDecision& decision) {
  return WriteFor<JobRecord>(
      *writer_, [&](WriteTransaction& transaction) -> absl::StatusOr<JobRecord> {
        LORSA_ASSIGN_OR_RETURN(const StoredJob before, ReadJob(transaction, id));
        LORSA_ASSIGN_OR_RETURN(const JobChange change, decision(before.record));
        LORSA_RETURN_IF_ERROR(ApplyChange(transaction, before, change, now));
        if (ComesBack(before.record.job.state(), change)) {
          LORSA_RETURN_IF_ERROR(CheckSetOfJob(transaction, before.record.job));
        }
        LORSA_ASSIGN_OR_RETURN(StoredJob after, ReadJob(transaction, id));
        if (change.state.has_value() && IsFinal(*change.state)) {
          LORSA_RETURN_IF_ERROR(StoreNotice(transaction, after, now));
        }
        return std::move(after.record);
      });
}

absl::StatusOr<std::vector<v1::JobEvent>> Catalog::ListEvents(absl::string_view job_id,
                                                              int64_t after_revision,
                                                              int limit) const {
  return readers_->Run(
      [&](ReadTransaction& transaction) -> absl::StatusOr<std::vector<v1::JobEvent>> {
        LORSA_ASSIGN_OR_RETURN(const int64_t job, JobNumber(transaction, job_id));
        return ReadEvents(transaction, job, after_revision, limit);
      });
}

absl::StatusOr<FoundAttempt> Catalog::FindAttempt(absl::string_view token_sha256) const {
  return readers_->Run(
      [&](ReadTransaction& transaction) { return ReadAttempt(transaction, token_sha256); });
}

absl::Status Catalog::PutMetrics(const AttemptKey& attempt, int64_t batch_number,
                                 const std::vector<v1::MetricPoint>& points) {
  return writer_->Write([&](WriteTransaction& transaction) -> absl::Status {
    LORSA_ASSIGN_OR_RETURN(const StoredJob job, RequireCurrent(transaction, attempt));
    return StoreMetrics(transaction, job, batch_number, points);
  });
}

absl::Status Catalog::PutCheckpoint(const AttemptKey& attempt, const v1::Checkpoint& checkpoint,
                                    bool scheduled, absl::Time now) {
  return writer_->Write([&](WriteTransaction& transaction) -> absl::Status {
    LORSA_ASSIGN_OR_RETURN(const StoredJob job, RequireCurrent(transaction, attempt));
    return StoreCheckpoint(transaction, job, checkpoint, scheduled, now);
  });
}

absl::StatusOr<MetricsSoFar> Catalog::MetricsAfter(absl::string_view job_id, int64_t after_sequence,
                                                   const MetricFilter& filter, int limit) const {
  return readers_->Run([&](ReadTransaction& transaction) -> absl::StatusOr<MetricsSoFar> {
    LORSA_ASSIGN_OR_RETURN(const int64_t job, JobNumber(transaction, job_id));
    LORSA_ASSIGN_OR_RETURN(const v1::JobState state, ReadJobState(transaction, job));
    LORSA_ASSIGN_OR_RETURN(std::vector<v1::MetricPoint> points,
                           ReadMetricsAfter(transaction, job, after_sequence, filter, limit));
    return MetricsSoFar{.state = state, .points = std::move(points)};
  });
}

absl::StatusOr<MetricsInRange> Catalog::QueryMetrics(absl::string_view job_id,
                                                     const MetricRange& range) const {
  return readers_->Run([&](ReadTransaction& transaction) -> absl::StatusOr<MetricsInRange> {
    LORSA_ASSIGN_OR_RETURN(const int64_t job, JobNumber(transaction, job_id));
    return ReadMetricRange(transaction, job, range);
  });
}

absl::StatusOr<std::vector<v1::Checkpoint>> Catalog::ListCheckpoints(
    absl::string_view job_id) const {
  return readers_->Run(
      [&](ReadTransaction& transaction) { return ReadCheckpoints(transaction, job_id); });
}

absl::StatusOr<v1::Checkpoint> Catalog::GetCheckpoint(absl::string_view job_id,
                                                      int64_t step) const {
  return readers_->Run(
      [&](ReadTransaction& transaction) { return ReadCheckpoint(transaction, job_id, step); });
}

absl::StatusOr<v1::Checkpoint> Catalog::ImportCheckpoint(const NewJob& job,
                                                         const v1::Checkpoint& checkpoint,
                                                         absl::Time now) {
  return WriteFor<v1::Checkpoint>(
      *writer_, [&](WriteTransaction& transaction) -> absl::StatusOr<v1::Checkpoint> {
        LORSA_ASSIGN_OR_RETURN(const InsertedJob inserted, InsertJob(transaction, job, now));
        LORSA_RETURN_IF_ERROR(
            StoreImportedCheckpoint(transaction, inserted.stored, checkpoint, now));
        return ReadCheckpoint(transaction, job.id, checkpoint.step());
      });
}

absl::StatusOr<v1::Checkpoint> Catalog::PinCheckpoint(absl::string_view job_id,
                                                      const CheckpointChoice& choose, bool pinned) {
  return WriteFor<v1::Checkpoint>(
      *writer_, [&](WriteTransaction& transaction) -> absl::StatusOr<v1::Checkpoint> {
        LORSA_ASSIGN_OR_RETURN(const int64_t job, JobNumber(transaction, job_id));
        LORSA_ASSIGN_OR_RETURN(const std::vector<v1::Checkpoint> all,
                               ReadCheckpoints(transaction, job_id));
        LORSA_ASSIGN_OR_RETURN(const int64_t step, choose(all));
        LORSA_RETURN_IF_ERROR(StorePin(transaction, job, step, pinned));
        return ReadCheckpoint(transaction, job_id, step);
      });
}

absl::Status Catalog::DeleteCheckpoint(absl::string_view job_id, int64_t step,
                                       const CheckpointCheck& check, bool keep_files) {
  return WriteDeletion([&](WriteTransaction& transaction) -> absl::Status {
    LORSA_ASSIGN_OR_RETURN(const StoredJob job, ReadJob(transaction, job_id));
    LORSA_ASSIGN_OR_RETURN(const v1::Checkpoint checkpoint,
                           ReadCheckpoint(transaction, job_id, step));
    LORSA_RETURN_IF_ERROR(check(job.record, checkpoint));
    return RemoveCheckpoint(transaction, job.number, step, keep_files);
  });
}

absl::StatusOr<std::set<int64_t>> Catalog::RemovedCheckpoints(absl::string_view job_id) const {
  return readers_->Run([&](ReadTransaction& transaction) -> absl::StatusOr<std::set<int64_t>> {
    LORSA_ASSIGN_OR_RETURN(const int64_t job, JobNumber(transaction, job_id));
    return ReadRemoved(transaction, job);
  });
}

absl::Status Catalog::ForgetRemovedCheckpoints(absl::string_view job_id) {
  return writer_->Write([&](WriteTransaction& transaction) -> absl::Status {
    LORSA_ASSIGN_OR_RETURN(const int64_t job, JobNumber(transaction, job_id));
    return ForgetRemoved(transaction, job);
  });
}

absl::StatusOr<int64_t> Catalog::Generation() const {
  return readers_->Run([](ReadTransaction& transaction) { return ReadGeneration(transaction); });
}

absl::Status Catalog::SetGeneration(int64_t generation) {
  return writer_->Write(
      [&](WriteTransaction& transaction) { return StoreGeneration(transaction, generation); });
}

absl::Status Catalog::ForgetAllRemovedCheckpoints() {
  return writer_->Write(
      [](WriteTransaction& transaction) { return ForgetAllRemoved(transaction); });
}

absl::Status Catalog::AdoptCheckpoint(absl::string_view job_id, const v1::Checkpoint& checkpoint,
                                      absl::Time now) {
  return writer_->Write([&](WriteTransaction& transaction) -> absl::Status {
    LORSA_ASSIGN_OR_RETURN(const StoredJob job, ReadJob(transaction, job_id));
    return StoreAdoptedCheckpoint(transaction, job, checkpoint, now);
  });
}

absl::Status Catalog::AdoptAttempt(absl::string_view job_id, const AdoptedAttempt& attempt,
                                   absl::Time now) {
  return writer_->Write([&](WriteTransaction& transaction) -> absl::Status {
    LORSA_ASSIGN_OR_RETURN(const StoredJob job, ReadJob(transaction, job_id));
    return StoreAdoptedAttempt(transaction, job, attempt, now);
  });
}

absl::StatusOr<std::vector<int64_t>> Catalog::DeleteCheckpoints(absl::string_view job_id,
                                                                const CheckpointRule& rule) {
  std::vector<int64_t> steps;
  LORSA_RETURN_IF_ERROR(WriteDeletion([&](WriteTransaction& transaction) -> absl::Status {
    LORSA_ASSIGN_OR_RETURN(const int64_t job, JobNumber(transaction, job_id));
    LORSA_ASSIGN_OR_RETURN(const std::vector<v1::Checkpoint> all,
                           ReadCheckpoints(transaction, job_id));
    steps = rule(all);
    for (const int64_t step : steps) {
      LORSA_RETURN_IF_ERROR(RemoveCheckpoint(transaction, job, step, /*keep_files=*/false));
    }
    return absl::OkStatus();
  }));
  return steps;
}

absl::StatusOr<bool> Catalog::PutVerdict(absl::string_view job_id, const v1::Checkpoint& checkpoint,
                                         absl::string_view damage, absl::Time now) {
  return WriteFor<bool>(*writer_, [&](WriteTransaction& transaction) {
    return StoreVerdict(transaction, job_id, checkpoint, damage, now);
  });
}

absl::StatusOr<std::vector<v1::Checkpoint>> Catalog::UnverifiedCheckpoints(absl::Time since,
                                                                           int limit) const {
  return readers_->Run(
      [&](ReadTransaction& transaction) { return ReadUnverifiedSince(transaction, since, limit); });
}

absl::StatusOr<std::vector<v1::Checkpoint>> Catalog::DamagedCheckpoints(int limit) const {
  return readers_->Run(
      [&](ReadTransaction& transaction) { return ReadDamagedCheckpoints(transaction, limit); });
}

absl::StatusOr<std::vector<PendingNotice>> Catalog::DueNotices(absl::Time now,
                                                               const DueLimits& limits) const {
  return readers_->Run(
      [&](ReadTransaction& transaction) { return ReadDueNotices(transaction, now, limits); });
}

absl::Status Catalog::PostponeNotice(int64_t number, absl::Time next_time) {
  return writer_->Write([&](WriteTransaction& transaction) {
    return server::PostponeNotice(transaction, number, next_time);
  });
}

absl::Status Catalog::RemoveNotice(int64_t number) {
  return writer_->Write(
      [&](WriteTransaction& transaction) { return server::RemoveNotice(transaction, number); });
}

absl::StatusOr<std::vector<v1::ActivationSet>> Catalog::QuarantinedSets() const {
  return readers_->Run(
      [&](ReadTransaction& transaction) { return ReadQuarantinedSets(transaction, /*limit=*/10); });
}

absl::StatusOr<v1::ActivationSet> Catalog::UpdateActivationSet(
    absl::string_view id, const std::function<absl::Status(v1::ActivationSet&)>& change) {
  return WriteFor<v1::ActivationSet>(*writer_, [&](WriteTransaction& transaction) {
    return ChangeActivationSet(transaction, id, change);
  });
}

absl::Status Catalog::DeleteActivationSet(absl::string_view id) {
  return WriteDeletion(
      [&](WriteTransaction& transaction) { return RemoveActivationSet(transaction, id); });
}

absl::StatusOr<v1::ActivationSet> Catalog::SetOfJob(const v1::Job& job) const {
  return readers_->Run(
      [&](ReadTransaction& transaction) { return ReadSetOfJob(transaction, job); });
}

absl::StatusOr<std::vector<std::string>> Catalog::JobsUsingSet(absl::string_view set_id) const {
  return readers_->Run(
      [&](ReadTransaction& transaction) { return ReadJobsUsing(transaction, set_id); });
}

absl::StatusOr<v1::ActivationSet> Catalog::CreateActivationSet(const v1::ActivationSet& set) {
  return WriteFor<v1::ActivationSet>(*writer_, [&](WriteTransaction& transaction) {
    return StoreActivationSet(transaction, set);
  });
}

absl::StatusOr<v1::ActivationSet> Catalog::GetActivationSet(absl::string_view id) const {
  return readers_->Run(
      [&](ReadTransaction& transaction) { return ReadActivationSet(transaction, id); });
}

absl::StatusOr<std::vector<v1::ActivationSet>> Catalog::ListActivationSets(
    absl::string_view after_id, int limit) const {
  return readers_->Run([&](ReadTransaction& transaction) {
    return ReadActivationSets(transaction, after_id, limit);
  });
}

}  // namespace lorsa::server
