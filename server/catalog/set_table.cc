#include "server/catalog/set_table.h"

#include <google/protobuf/util/time_util.h>

#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "server/catalog/job_table.h"
#include "server/model/job_state.h"
#include "server/model/spec_facts.h"

namespace lorsa::server {
namespace {

using google::protobuf::operator<=;

constexpr int kNoLimit = -1;  // as SQLite has it

absl::StatusOr<v1::ActivationSet> SetFromRow(const Statement& row) {
  v1::ActivationSet set;
  if (set.ParseFromString(row.Bytes(0))) {
    // Those stored before there were states.
    if (set.state() == v1::ACTIVATION_SET_STATE_UNSPECIFIED) {
      set.set_state(v1::ACTIVATION_SET_STATE_READY);
    }
    return set;
  }
  return absl::DataLossError(
      "catalog: an activation set is damaged; restore the catalog from a backup");
}

absl::StatusOr<std::vector<v1::ActivationSet>> SetsFromRows(Statement& statement) {
  std::vector<v1::ActivationSet> sets;
  while (true) {
    LORSA_ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) return sets;
    LORSA_ASSIGN_OR_RETURN(v1::ActivationSet set, SetFromRow(statement));
    sets.push_back(std::move(set));
  }
}

absl::StatusOr<std::optional<v1::ActivationSet>> FindActivationSet(ReadTransaction& transaction,
                                                                   absl::string_view id) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("SELECT activation_set FROM activation_sets WHERE id = ?1"));
  LORSA_ASSIGN_OR_RETURN(const bool row, statement.Bind(id).Step());
  if (!row) return std::nullopt;
  LORSA_ASSIGN_OR_RETURN(v1::ActivationSet set, SetFromRow(statement));
  return set;
}

absl::Status WriteSet(WriteTransaction& transaction, absl::string_view id,
                      const v1::ActivationSet& set) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("UPDATE activation_sets SET activation_set = ?2, quarantined = ?3"
                          " WHERE id = ?1"));
  const bool quarantined = set.state() == v1::ACTIVATION_SET_STATE_QUARANTINED;
  return statement.Bind(id)
      .BindBlob(set.SerializeAsString())
      .Bind(static_cast<int64_t>(quarantined))
      .Run();
}

// The other sets with the folder and the manifest of `set`.
absl::StatusOr<std::vector<v1::ActivationSet>> AliasesOf(ReadTransaction& transaction,
                                                         const v1::ActivationSet& set) {
  LORSA_ASSIGN_OR_RETURN(std::vector<v1::ActivationSet> sets,
                         ReadActivationSets(transaction, /*after_id=*/"", kNoLimit));
  std::erase_if(sets, [&](const v1::ActivationSet& other) {
    return other.name() == set.name() || other.path() != set.path() ||
           other.manifest_sha256() != set.manifest_sha256();
  });
  return sets;
}

absl::Status ShareVerdict(WriteTransaction& transaction, const v1::ActivationSet& set) {
  LORSA_ASSIGN_OR_RETURN(std::vector<v1::ActivationSet> aliases, AliasesOf(transaction, set));
  for (v1::ActivationSet& alias : aliases) {
    alias.set_state(set.state());
    *alias.mutable_problems() = set.problems();
    *alias.mutable_verify_time() = set.verify_time();
    alias.set_revision(alias.revision() + 1);
    LORSA_ASSIGN_OR_RETURN(const std::string id, IdFromName("activationSets", alias.name()));
    LORSA_RETURN_IF_ERROR(WriteSet(transaction, id, alias));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ReadJobsNaming(ReadTransaction& transaction,
                                                        const std::set<std::string>& set_ids) {
  std::vector<std::string> ids;
  for (int state = v1::JOB_STATE_QUEUED; state < v1::JobState_ARRAYSIZE; ++state) {
    if (IsFinal(static_cast<v1::JobState>(state))) continue;
    LORSA_ASSIGN_OR_RETURN(
        const std::vector<JobRecord> jobs,
        ReadJobsInState(transaction, static_cast<v1::JobState>(state), kNoLimit));
    for (const JobRecord& job : jobs) {
      if (set_ids.contains(FactsOf(job.job.resolved_spec()).activation_set)) ids.push_back(job.id);
    }
  }
  return ids;
}

// Whether the set is the one that the job was made for.
bool Fits(const v1::ActivationSet& set, const v1::Job& job) {
  const std::string sha256 = FactsOf(job.resolved_spec()).activation_set_sha256;
  if (!sha256.empty()) return sha256 == set.manifest_sha256();
  return set.register_time() <= job.create_time();
}

}  // namespace

absl::StatusOr<v1::ActivationSet> ReadSetOfJob(ReadTransaction& transaction, const v1::Job& job) {
  const std::string id = FactsOf(job.resolved_spec()).activation_set;
  constexpr char kRemedy[] =
      "; register the contents that it read under this id, or submit a new job";
  LORSA_ASSIGN_OR_RETURN(std::optional<v1::ActivationSet> set, FindActivationSet(transaction, id));
  if (!set.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat("activation set ", id, ", which ", job.name(),
                                                      " reads, was deleted", kRemedy));
  }
  if (Fits(*set, job)) return *std::move(set);
  return absl::FailedPreconditionError(
      absl::StrCat("activation set ", id, " has other contents (manifest ", set->manifest_sha256(),
                   ") than when ", job.name(), " was made", kRemedy));
}

absl::Status CheckSetOfJob(ReadTransaction& transaction, const v1::Job& job) {
  if (FactsOf(job.resolved_spec()).activation_set.empty()) return absl::OkStatus();
  return ReadSetOfJob(transaction, job).status();
}

absl::StatusOr<v1::ActivationSet> StoreActivationSet(WriteTransaction& transaction,
                                                     const v1::ActivationSet& set) {
  LORSA_ASSIGN_OR_RETURN(const std::string id, IdFromName("activationSets", set.name()));
  LORSA_ASSIGN_OR_RETURN(const std::optional<v1::ActivationSet> existing,
                         FindActivationSet(transaction, id));
  if (existing.has_value()) {
    if (existing->path() == set.path() && existing->manifest_sha256() == set.manifest_sha256()) {
      return *existing;
    }
    if (existing->path() == set.path()) {
      return absl::AlreadyExistsError(
          absl::StrCat("activation set ", id, " is the folder ", set.path(),
                       ", but its contents have changed since it was registered; register it "
                       "under another id"));
    }
    return absl::AlreadyExistsError(absl::StrCat("activation set ", id,
                                                 " is registered already, with the folder ",
                                                 existing->path(), "; choose another id"));
  }
  LORSA_ASSIGN_OR_RETURN(Statement statement,
                         transaction.Prepare("INSERT INTO activation_sets (id, activation_set)"
                                             " VALUES (?1, ?2)"));
  LORSA_RETURN_IF_ERROR(statement.Bind(id).BindBlob(set.SerializeAsString()).Run());
  return set;
}

absl::StatusOr<v1::ActivationSet> ChangeActivationSet(
    WriteTransaction& transaction, absl::string_view id,
    const std::function<absl::Status(v1::ActivationSet&)>& change) {
  LORSA_ASSIGN_OR_RETURN(v1::ActivationSet set, ReadActivationSet(transaction, id));
  LORSA_RETURN_IF_ERROR(change(set));
  set.set_revision(set.revision() + 1);
  LORSA_RETURN_IF_ERROR(WriteSet(transaction, id, set));
  LORSA_RETURN_IF_ERROR(ShareVerdict(transaction, set));
  return set;
}

absl::StatusOr<std::vector<std::string>> ReadJobsUsing(ReadTransaction& transaction,
                                                       absl::string_view set_id) {
  std::set<std::string> ids{std::string(set_id)};
  LORSA_ASSIGN_OR_RETURN(const std::optional<v1::ActivationSet> set,
                         FindActivationSet(transaction, set_id));
  if (set.has_value()) {
    LORSA_ASSIGN_OR_RETURN(const std::vector<v1::ActivationSet> aliases,
                           AliasesOf(transaction, *set));
    for (const v1::ActivationSet& alias : aliases) {
      LORSA_ASSIGN_OR_RETURN(std::string id, IdFromName("activationSets", alias.name()));
      ids.insert(std::move(id));
    }
  }
  return ReadJobsNaming(transaction, ids);
}

absl::Status RemoveActivationSet(WriteTransaction& transaction, absl::string_view id) {
  LORSA_RETURN_IF_ERROR(ReadActivationSet(transaction, id).status());
  LORSA_ASSIGN_OR_RETURN(const std::vector<std::string> users,
                         ReadJobsNaming(transaction, {std::string(id)}));
  if (!users.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "activation set ", id, " is used by ", users.size(), " jobs that have not ended, such as ",
        users.front(), "; cancel them or wait for their end"));
  }
  LORSA_ASSIGN_OR_RETURN(Statement statement,
                         transaction.Prepare("DELETE FROM activation_sets WHERE id = ?1"));
  return statement.Bind(id).Run();
}

absl::StatusOr<v1::ActivationSet> ReadActivationSet(ReadTransaction& transaction,
                                                    absl::string_view id) {
  LORSA_ASSIGN_OR_RETURN(std::optional<v1::ActivationSet> set, FindActivationSet(transaction, id));
  if (set.has_value()) return *std::move(set);
  return absl::NotFoundError(
      absl::StrCat("there is no activation set ", id, "; register it first"));
}

absl::StatusOr<std::vector<v1::ActivationSet>> ReadActivationSets(ReadTransaction& transaction,
                                                                  absl::string_view after_id,
                                                                  int limit) {
  LORSA_ASSIGN_OR_RETURN(Statement statement,
                         transaction.Prepare("SELECT activation_set FROM activation_sets"
                                             " WHERE id > ?1 ORDER BY id LIMIT ?2"));
  statement.Bind(after_id).Bind(static_cast<int64_t>(limit));
  return SetsFromRows(statement);
}

absl::StatusOr<std::vector<v1::ActivationSet>> ReadQuarantinedSets(ReadTransaction& transaction,
                                                                   int limit) {
  LORSA_ASSIGN_OR_RETURN(Statement statement,
                         transaction.Prepare("SELECT activation_set FROM activation_sets"
                                             " WHERE quarantined = 1 ORDER BY id LIMIT ?1"));
  statement.Bind(static_cast<int64_t>(limit));
  return SetsFromRows(statement);
}

}  // namespace lorsa::server
