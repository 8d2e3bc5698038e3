// The durable memory of lorsad: jobs, their events, metrics and checkpoints, and the registered
// activation sets, in one SQLite file.
//
// Protocol of a write:
//   1. The caller's thread queues the write and waits.
//   2. The one writer thread takes all that is queued, up to a bound, and opens a transaction.
//   3. Each write runs under a savepoint of its own: one that fails (a lost race, an illegal edge,
//      a stale attempt) is undone alone. Whatever a write decides, it decides on rows read here,
//      inside the transaction, so what commits first wins.
//   4. The transaction commits: one fsync for the whole group (WAL, synchronous=FULL).
//   5. Only then does each caller get its result: what was answered OK is on the disk.
// If 4 fails nothing of the group happened and each caller is told so: RESOURCE_EXHAUSTED for a
// full or failing disk. The next group tries anew; there is nothing to repair.
// Each method that reads sees one snapshot: the state after one and the same commit
// (transaction.h).
#ifndef LORSA_SERVER_CATALOG_CATALOG_H_
#define LORSA_SERVER_CATALOG_CATALOG_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/process_identity.h"
#include "lorsa/v1/activation_service.pb.h"
#include "lorsa/v1/checkpoint_service.pb.h"
#include "lorsa/v1/job.pb.h"
#include "lorsa/v1/metric_service.pb.h"
#include "lorsa/v1/sweep.pb.h"
#include "lorsa/v1/webhook.pb.h"
#include "server/model/attempt_key.h"

namespace lorsa::server {

class CatalogWriter;
class ConnectionPool;
class WriteTransaction;

// A job as stored.
struct JobRecord {
  std::string id;
  // Everything but progress, waiting_for and waiting_message, which are not durable.
  v1::Job job;
  // Process of the current attempt; pid 0 before it is known.
  ProcessIdentity worker;
  // RECOVERING: the next attempt is not launched earlier.
  absl::Time not_before = absl::InfinitePast();
  // Recoveries since the last new scheduled checkpoint.
  int recoveries = 0;
  // Attempts lost before their worker said hello, one after the other.
  int startup_failures = 0;
  // Of the checkpoint that the job was forked from; 0 if it was not.
  int64_t first_step = 0;
  // Whether a checkpoint of the job is pinned.
  bool has_pin = false;
};

// A job with its number, which grows from one job to the next and is never given to another one: by
// it the other tables refer to the job, and pages of a list go on after it.
struct StoredJob {
  int64_t number = 0;
  JobRecord record;
};

// By what a request that is sent again is known.
struct RequestIdentity {
  std::string id;      // chosen by the client; empty: each request is one of its own
  std::string sha256;  // of its contents, hex
};

struct NewJob {
  std::string id;   // valid (base/identifiers.h)
  std::string uid;  // as in Job; empty = to be chosen
  v1::JobSpec spec;
  v1::JobSpec resolved_spec;
  v1::JobPolicy policy;
  RequestIdentity request;
  int64_t memory_bytes = 0;  // as in Job
  // As in Job, and the job's copy of that checkpoint; of the latter step, tokens, files and FVU.
  std::string forked_from;
  std::optional<v1::Checkpoint> first_checkpoint;
  // The other job's checkpoint that initial_checkpoint of resolved_spec names. Not stored: the
  // job's folder gets a copy (server/jobs/job_creator.h).
  std::optional<v1::Checkpoint> initial_checkpoint;
};

// What the webhook of a job that has ended is to be told.
struct PendingNotice {
  int64_t number = 0;
  std::string url;
  v1::JobEndedNotice notice;
  absl::Time create_time;
  int tries = 0;         // that failed
  std::string receiver;  // HOST:PORT of the URL
};

// Of what is returned of the notices that are due.
struct DueLimits {
  int per_receiver = 1;
  // More than this is left to no notice, unless the clock was set back: it is due.
  absl::Duration longest_pause = absl::InfiniteDuration();
};

struct NewSweep {
  std::string id;   // valid
  v1::Sweep sweep;  // what its client set, but for the name
  RequestIdentity request;
  std::vector<NewJob> jobs;  // with ids of their own
};

// As StoredJob.
struct StoredSweep {
  int64_t number = 0;
  v1::Sweep sweep;
};

// What one transaction does to a job; what is left empty stays as it is.
struct JobChange {
  // The new state; must be a legal edge from the current one. Empty: an event without a change of
  // state.
  std::optional<v1::JobState> state;
  // Of the event and, with a new state, of the job.
  std::string reason;
  std::string message;
  // Begins attempt number current + 1, known by the sha256 (hex) of its token. The row of the
  // current one goes if that did not reach its machine: a machine that stays away leaves one row.
  std::optional<std::string> new_attempt_token_sha256;
  std::optional<ProcessIdentity> worker;
  std::optional<absl::Time> not_before;
  std::optional<int> recoveries;
  std::optional<int> startup_failures;
  std::optional<std::string> log_tail;  // valid UTF-8
  // The deadline counts no longer.
  bool drop_deadline = false;
  std::optional<v1::JobPolicy> policy;
  // Queue behind all others; a job is otherwise queued where its creation put it.
  bool to_end_of_queue = false;
};

// Looks at the job as it is inside the transaction and says what to do, or refuses with an error,
// which is handed on. Runs on the writer thread: quick, and without a call to the catalog.
using JobDecision = std::function<absl::StatusOr<JobChange>(const JobRecord& current)>;

// The same for what is done to a job as a whole: OK lets it happen.
using JobCheck = std::function<absl::Status(const JobRecord& current)>;

// The same for what is done to one checkpoint of a job.
using CheckpointCheck =
    std::function<absl::Status(const JobRecord& job, const v1::Checkpoint& checkpoint)>;

// The same for a choice among all checkpoints of a job, oldest step first: the step of one of them.
using CheckpointChoice =
    std::function<absl::StatusOr<int64_t>(const std::vector<v1::Checkpoint>& checkpoints)>;
CheckpointChoice AtStep(int64_t step);
// The checkpoint of that step; NOT_FOUND, which names the job, if there is none.
absl::StatusOr<v1::Checkpoint> CheckpointOf(const std::vector<v1::Checkpoint>& checkpoints,
                                            int64_t step, absl::string_view job_id);

// The same for which of them to delete: steps.
using CheckpointRule =
    std::function<std::vector<int64_t>(const std::vector<v1::Checkpoint>& checkpoints)>;

// An attempt that the data folder shows and the catalog does not know.
struct AdoptedAttempt {
  int attempt = 0;
  std::string token_sha256;                        // hex; empty = not known
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;  // of the job in that attempt, as far as is known
};

// Generation of a copy of a catalog: what happened since it was made is not known to it.
inline constexpr int64_t kGenerationOfCopy = 0;

struct FoundAttempt {
  AttemptKey key;
  // It is the newest attempt of its job and has a worker.
  bool is_current = false;
};

// A job and its checkpoints at one moment, oldest step first.
struct JobWithCheckpoints {
  v1::Job job;
  std::vector<v1::Checkpoint> checkpoints;
};

struct JobFilter {
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;  // unspecified = all
  std::map<std::string, std::string> labels;       // all of them
  std::string sweep_id;                            // empty = of any sweep or none
  // Only jobs with a lower number; 0 = from the newest.
  int64_t before = 0;
  int limit = 50;
};

struct MetricRange {
  v1::MetricKind kind = v1::METRIC_KIND_UNSPECIFIED;
  int64_t start_step = 0;
  int64_t end_step = 0;  // exclusive; 0 = no end
  int limit = 1000;
  // At most `limit` points (2 or more) spread over the range, its first and its last among them,
  // instead of its first ones.
  bool thinned = false;
  std::vector<std::string> names;  // of the values wanted; empty = all
  // Of all points together. A page ends earlier and a thinned range gets fewer points, but two at
  // least, rather than be larger.
  size_t max_bytes = 2 << 20;
};

// Points of a range, in order of step.
struct MetricsInRange {
  std::vector<v1::MetricPoint> points;
  // Of the first point left out at the end; nothing of a thinned range.
  std::optional<int64_t> next_step;
};

// Which points of a stream.
struct MetricFilter {
  v1::MetricKind kind = v1::METRIC_KIND_UNSPECIFIED;  // unspecified = both
  int64_t every_steps = 1;                            // training points of multiples of this alone
  std::vector<std::string> names;                     // as in MetricRange
};

// Points of a stream, in order of sequence, and the state of the job at that moment.
struct MetricsSoFar {
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
  std::vector<v1::MetricPoint> points;
};

// All methods block and may be called from any thread, but not from a JobDecision. Errors:
// NOT_FOUND for a job, set or checkpoint that is not there; RESOURCE_EXHAUSTED when the disk is
// full or failing (nothing changed; try again later); DATA_LOSS for a damaged file.
class Catalog {
 public:
  // Creates the file or opens it. One of an older program is brought up to date, after a copy of it
  // was left beside (schema.h). FAILED_PRECONDITION, leaving it untouched, if a newer program wrote
  // it.
  //
  // On a disk that is full or read-only it opens for reading: writes return the error, each tries
  // anew, and the first that the disk takes ends that. A deletion that the full disk does not take
  // calls `make_room`, which returns whether it made some, and is tried once more.
  static absl::StatusOr<std::unique_ptr<Catalog>> Open(
      const std::string& path, std::function<bool()> make_room = [] { return false; });
  // Finishes what is queued.
  ~Catalog();

  // --- Jobs ---

  // Stores a QUEUED job with its first event (reason CREATED). The same id and request again return
  // the job that the first call made; otherwise ALREADY_EXISTS for an id that is taken, UNAVAILABLE
  // for that of a job which is being removed.
  absl::StatusOr<JobRecord> CreateJob(const NewJob& job, absl::Time now);
  // OK if a job of that id can be created now; else what CreateJob says.
  absl::Status CheckJobIdIsFree(absl::string_view id) const;
  // The job that this very request made already, if it did.
  absl::StatusOr<std::optional<JobRecord>> FindRepeatedJob(absl::string_view id,
                                                           const RequestIdentity& request) const;
  absl::StatusOr<JobRecord> GetJob(absl::string_view id) const;
  absl::StatusOr<JobWithCheckpoints> GetJobWithCheckpoints(absl::string_view id) const;
  // Newest first.
  absl::StatusOr<std::vector<StoredJob>> ListJobs(const JobFilter& filter) const;
  // All jobs that hold a slot (server/model/job_state.h).
  absl::StatusOr<std::vector<JobRecord>> ActiveJobs() const;
  // Hands QUEUED jobs to `visit`, one at a time, until it returns false. They come in queue order:
  // by priority, higher first, then by position. `visit` does not call the catalog.
  absl::Status VisitQueuedJobs(const std::function<bool(const JobRecord&)>& visit) const;
  absl::StatusOr<int64_t> CountJobs(v1::JobState state) const;
  // Of each state in which there is a job.
  absl::StatusOr<std::map<v1::JobState, int64_t>> CountJobsByState() const;
  // At most `limit` jobs that have not ended, nor are about to (CANCELLING), though their deadline
  // is over.
  absl::StatusOr<std::vector<JobRecord>> OverdueJobs(absl::Time now, int limit) const;
  // At most `limit` jobs that have outlived their ttl and have no pinned checkpoint.
  absl::StatusOr<std::vector<JobRecord>> ExpiredJobs(absl::Time now, int limit) const;
  // Whether the files can be read just now. Everything else here may be answered from caches for a
  // while after they were damaged.
  absl::Status CheckReadable() const;
  // OK if writes succeed, as far as is known. If the newest did not, it is tried whether one does.
  absl::Status CheckWritable();

  // The one way in which a job changes: decision, row and event in one transaction and, if it ends
  // and has a webhook, the notice for it. Returns the job after it. FAILED_PRECONDITION for an
  // illegal edge.
  absl::StatusOr<JobRecord> UpdateJob(absl::string_view id, absl::Time now,
                                      const JobDecision& decision);

  // --- Sweeps ---

  // Stores the sweep and all its jobs, or nothing. The same id and request again return the sweep
  // that the first call made; ALREADY_EXISTS for an id of sweep or job that is taken.
  absl::StatusOr<v1::Sweep> CreateSweep(const NewSweep& sweep, absl::Time now);
  // The sweep that this very request made already, if it did.
  absl::StatusOr<std::optional<v1::Sweep>> FindRepeatedSweep(absl::string_view id,
                                                             const RequestIdentity& request) const;
  // With its counts and its best job as they are.
  absl::StatusOr<v1::Sweep> GetSweep(absl::string_view id) const;
  // Newest first, those with a lower number than `before`; 0 = from the newest.
  absl::StatusOr<std::vector<StoredSweep>> ListSweeps(int64_t before, int limit) const;

  // --- Removal of a job: from DeleteJob on no other method sees it, but its id stays taken until
  // its files are gone and PurgeJob has taken its rows. ---

  // If `check` lets it.
  absl::Status DeleteJob(absl::string_view id, const JobCheck& check);
  // At most `limit` jobs on their way out.
  absl::StatusOr<std::vector<JobRecord>> DeletedJobs(int limit) const;
  // Takes some of the rows of a job on its way out, so that other writes come in between. True once
  // none is left.
  absl::StatusOr<bool> PurgeJob(absl::string_view id);

  // Events with a higher revision, in order, at most `limit`.
  absl::StatusOr<std::vector<v1::JobEvent>> ListEvents(absl::string_view job_id,
                                                       int64_t after_revision, int limit) const;

  // The attempt, current or past, whose token has this sha256 (hex). NOT_FOUND if none.
  absl::StatusOr<FoundAttempt> FindAttempt(absl::string_view token_sha256) const;

  // --- What an attempt reports. ABORTED if it is no longer the current attempt of a job that has
  // a worker: a stalled worker of an older attempt can change nothing. ---

  // Stores points under (kind, step), in place of an older attempt's. A batch whose number is not
  // above the last one stored for the attempt is dropped: it was sent again. `points` carry no
  // sequence and their attempt is overwritten.
  absl::Status PutMetrics(const AttemptKey& attempt, int64_t batch_number,
                          const std::vector<v1::MetricPoint>& points);

  // Stores a checkpoint and an event with reason CHECKPOINT. Its name, attempt, create_time and
  // best are set here. `scheduled`, and of a higher step than all before: resets the count of
  // recoveries. A checkpoint of the same step is replaced.
  absl::Status PutCheckpoint(const AttemptKey& attempt, const v1::Checkpoint& checkpoint,
                             bool scheduled, absl::Time now);

  // --- Metrics ---

  // Points of a job with a higher sequence.
  absl::StatusOr<MetricsSoFar> MetricsAfter(absl::string_view job_id, int64_t after_sequence,
                                            const MetricFilter& filter, int limit) const;
  absl::StatusOr<MetricsInRange> QueryMetrics(absl::string_view job_id,
                                              const MetricRange& range) const;

  // --- Checkpoints ---

  // Makes a job that has ended (SUCCEEDED, reason IMPORTED) with `checkpoint`, of which name,
  // attempt and create_time are set here; returns the checkpoint. ALREADY_EXISTS for an id that is
  // taken.
  absl::StatusOr<v1::Checkpoint> ImportCheckpoint(const NewJob& job,
                                                  const v1::Checkpoint& checkpoint, absl::Time now);
  // Oldest step first, `best` set on one at most.
  absl::StatusOr<std::vector<v1::Checkpoint>> ListCheckpoints(absl::string_view job_id) const;
  absl::StatusOr<v1::Checkpoint> GetCheckpoint(absl::string_view job_id, int64_t step) const;
  // Sets the pin of the checkpoint that `choose` names, or takes it off; returns the checkpoint.
  absl::StatusOr<v1::Checkpoint> PinCheckpoint(absl::string_view job_id,
                                               const CheckpointChoice& choose, bool pinned);
  // If `check` lets it. Unless `keep_files`, its folder may be removed from then on
  // (RemovedCheckpoints).
  absl::Status DeleteCheckpoint(absl::string_view job_id, int64_t step,
                                const CheckpointCheck& check, bool keep_files = false);
  // The same for those that `rule` names; returns their steps.
  absl::StatusOr<std::vector<int64_t>> DeleteCheckpoints(absl::string_view job_id,
                                                         const CheckpointRule& rule);
  // What a look at the files of `checkpoint` found: `damage` is empty if they hold. `checkpoint`
  // was read from here before the look began. False, and nothing happens, if it was removed,
  // published again or judged by another look since.
  absl::StatusOr<bool> PutVerdict(absl::string_view job_id, const v1::Checkpoint& checkpoint,
                                  absl::string_view damage, absl::Time now);
  // At most `limit` of those not looked at since then, the longest ago first, of all jobs. `best`
  // is not set.
  absl::StatusOr<std::vector<v1::Checkpoint>> UnverifiedCheckpoints(absl::Time since,
                                                                    int limit) const;
  // `best` is not set.
  absl::StatusOr<std::vector<v1::Checkpoint>> DamagedCheckpoints(int limit) const;

  // Steps of those that were deleted since the last ForgetRemovedCheckpoints: their folders are the
  // only ones that may be removed.
  absl::StatusOr<std::set<int64_t>> RemovedCheckpoints(absl::string_view job_id) const;
  absl::Status ForgetRemovedCheckpoints(absl::string_view job_id);

  // --- What is found in the data folder and the catalog does not know (server/jobs/
  // data_adoption.h) ---

  // Counts starts of servers; kGenerationOfCopy for a copy on which none has started.
  absl::StatusOr<int64_t> Generation() const;
  absl::Status SetGeneration(int64_t generation);
  // For a catalog that is older than its data: no folder is one that it knows to be deleted.
  absl::Status ForgetAllRemovedCheckpoints();
  // Stores a checkpoint, in place of one of the same step, and an event with reason ADOPTED.
  absl::Status AdoptCheckpoint(absl::string_view job_id, const v1::Checkpoint& checkpoint,
                               absl::Time now);
  // Makes `attempt` the job's current one and gives the job its state, whatever it was before: what
  // lies between was known to a newer catalog. Event with reason ADOPTED.
  absl::Status AdoptAttempt(absl::string_view job_id, const AdoptedAttempt& attempt,
                            absl::Time now);

  // --- Notices for webhooks ---

  // Those that are due, the longest ago first. Of each job the oldest notice alone is due.
  absl::StatusOr<std::vector<PendingNotice>> DueNotices(absl::Time now,
                                                        const DueLimits& limits) const;
  // One more try has failed; the next is due then.
  absl::Status PostponeNotice(int64_t number, absl::Time next_time);
  // It was taken, or given up.
  absl::Status RemoveNotice(int64_t number);

  // --- Activation sets ---

  // `set.name` is activationSets/ID. Storing the same path and manifest_sha256 again returns the
  // first one stored; anything else under a taken id is ALREADY_EXISTS.
  absl::StatusOr<v1::ActivationSet> CreateActivationSet(const v1::ActivationSet& set);
  absl::StatusOr<v1::ActivationSet> GetActivationSet(absl::string_view id) const;
  // In order of id, from the first id after `after_id` on.
  absl::StatusOr<std::vector<v1::ActivationSet>> ListActivationSets(absl::string_view after_id,
                                                                    int limit) const;
  // At most ten.
  absl::StatusOr<std::vector<v1::ActivationSet>> QuarantinedSets() const;
  // Lets `change` alter the set, in one transaction, and gives it the next revision; returns it as
  // it is then. Its aliases get its state and problems, and their next revision too. An error of
  // `change` is handed on and nothing happens. `change` runs on the writer thread, as a JobDecision
  // does.
  absl::StatusOr<v1::ActivationSet> UpdateActivationSet(
      absl::string_view id, const std::function<absl::Status(v1::ActivationSet&)>& change);
  // FAILED_PRECONDITION naming a job that trains on it and has not ended.
  absl::Status DeleteActivationSet(absl::string_view id);
  // The set that a job trains on, with the contents that the job was made for. FAILED_PRECONDITION
  // if the set is gone or has other contents. The job is refused for the same reasons when it is
  // created, and when it is queued again after it failed or was paused.
  absl::StatusOr<v1::ActivationSet> SetOfJob(const v1::Job& job) const;
  // Ids of jobs that have not ended and train on the set or on an alias of it: a set with the same
  // folder and manifest.
  absl::StatusOr<std::vector<std::string>> JobsUsingSet(absl::string_view set_id) const;

 private:
  Catalog(std::unique_ptr<ConnectionPool> readers, std::unique_ptr<CatalogWriter> writer,
          std::function<bool()> make_room);
  absl::Status WriteDeletion(const std::function<absl::Status(WriteTransaction&)>& write);

  const std::unique_ptr<ConnectionPool> readers_;
  const std::unique_ptr<CatalogWriter> writer_;
  const std::function<bool()> make_room_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CATALOG_CATALOG_H_
