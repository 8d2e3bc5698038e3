// Rows of jobs, attempts and events. Everything here runs inside a transaction or read that the
// caller has opened.
#ifndef LORSA_SERVER_CATALOG_JOB_TABLE_H_
#define LORSA_SERVER_CATALOG_JOB_TABLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/catalog/catalog.h"
#include "server/catalog/transaction.h"

namespace lorsa::server {

struct InsertedJob {
  StoredJob stored;
  bool is_new = false;  // false: an earlier send of the same request made it
};
// The rows of the job, but for that of its first checkpoint. `sweep`: number of that of which it is
// a part, if any.
absl::StatusOr<InsertedJob> InsertJob(WriteTransaction& transaction, const NewJob& job,
                                      absl::Time now, std::optional<int64_t> sweep = std::nullopt);
// ALREADY_EXISTS for an id that a job has, UNAVAILABLE for that of one on its way out.
absl::Status CheckIdIsFree(ReadTransaction& transaction, absl::string_view id);
absl::StatusOr<std::optional<StoredJob>> FindRepeatedJob(ReadTransaction& transaction,
                                                         absl::string_view id,
                                                         const RequestIdentity& request);
absl::StatusOr<StoredJob> ReadJob(ReadTransaction& transaction, absl::string_view id);
absl::StatusOr<int64_t> JobNumber(ReadTransaction& transaction, absl::string_view id);
absl::StatusOr<std::vector<StoredJob>> ReadJobs(ReadTransaction& transaction,
                                                const JobFilter& filter);
// In queue order, at most `limit`, as below.
absl::StatusOr<std::vector<JobRecord>> ReadJobsInState(ReadTransaction& transaction,
                                                       v1::JobState state, int64_t limit);
// In queue order, handed to `visit` one at a time until it returns false.
absl::Status VisitJobsInState(ReadTransaction& transaction, v1::JobState state,
                              const std::function<bool(const JobRecord&)>& visit);
absl::StatusOr<v1::JobState> ReadJobState(ReadTransaction& transaction, int64_t job);
absl::StatusOr<int64_t> CountJobsInState(ReadTransaction& transaction, v1::JobState state);
// Of each state in which there is a job.
absl::StatusOr<std::map<v1::JobState, int64_t>> CountJobsInStates(ReadTransaction& transaction);
absl::StatusOr<std::vector<JobRecord>> ReadOverdueJobs(ReadTransaction& transaction, absl::Time now,
                                                       int64_t limit);
absl::StatusOr<std::vector<JobRecord>> ReadExpiredJobs(ReadTransaction& transaction, absl::Time now,
                                                       int64_t limit);
// Those on their way out, which nothing else here sees.
absl::StatusOr<std::vector<JobRecord>> ReadDeletedJobs(ReadTransaction& transaction, int64_t limit);
absl::Status MarkDeleted(WriteTransaction& transaction, int64_t job);

// Writes the row and the event of `change`. FAILED_PRECONDITION for an illegal edge.
absl::Status ApplyChange(WriteTransaction& transaction, const StoredJob& job,
                         const JobChange& change, absl::Time now);

absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(ReadTransaction& transaction, int64_t job,
                                                     int64_t after_revision, int limit);

absl::StatusOr<FoundAttempt> ReadAttempt(ReadTransaction& transaction,
                                         absl::string_view token_sha256);
// The job, if `attempt` is its current one and has a worker; ABORTED otherwise.
absl::StatusOr<StoredJob> RequireCurrent(ReadTransaction& transaction, const AttemptKey& attempt);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CATALOG_JOB_TABLE_H_
