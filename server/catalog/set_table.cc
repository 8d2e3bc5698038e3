#include "server/catalog/set_table.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "base/identifiers.h"
#include "base/status_macros.h"

namespace lorsa::server {
namespace {

absl::StatusOr<v1::ActivationSet> SetFromRow(const Statement& row) {
  v1::ActivationSet set;
  if (set.ParseFromString(row.Bytes(0))) return set;
  return absl::DataLossError(
      "catalog: an activation set is damaged; restore the catalog from a backup");
}

absl::StatusOr<std::optional<v1::ActivationSet>> FindActivationSet(Connection& connection,
                                                                   absl::string_view id) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      connection.Prepare("SELECT activation_set FROM activation_sets WHERE id = ?1"));
  LORSA_ASSIGN_OR_RETURN(const bool row, statement.Bind(id).Step());
  if (!row) return std::nullopt;
  LORSA_ASSIGN_OR_RETURN(v1::ActivationSet set, SetFromRow(statement));
  return set;
}

}  // namespace

absl::StatusOr<v1::ActivationSet> StoreActivationSet(Connection& connection,
                                                     const v1::ActivationSet& set) {
  LORSA_ASSIGN_OR_RETURN(const std::string id, IdFromName("activationSets", set.name()));
  LORSA_ASSIGN_OR_RETURN(const std::optional<v1::ActivationSet> existing,
                         FindActivationSet(connection, id));
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
                         connection.Prepare("INSERT INTO activation_sets VALUES (?1, ?2)"));
  LORSA_RETURN_IF_ERROR(statement.Bind(id).BindBlob(set.SerializeAsString()).Run());
  return set;
}

absl::StatusOr<v1::ActivationSet> ReadActivationSet(Connection& connection, absl::string_view id) {
  LORSA_ASSIGN_OR_RETURN(std::optional<v1::ActivationSet> set, FindActivationSet(connection, id));
  if (set.has_value()) return *std::move(set);
  return absl::NotFoundError(
      absl::StrCat("there is no activation set ", id, "; register it first"));
}

absl::StatusOr<std::vector<v1::ActivationSet>> ReadActivationSets(Connection& connection,
                                                                  absl::string_view after_id,
                                                                  int limit) {
  LORSA_ASSIGN_OR_RETURN(Statement statement,
                         connection.Prepare("SELECT activation_set FROM activation_sets"
                                            " WHERE id > ?1 ORDER BY id LIMIT ?2"));
  statement.Bind(after_id).Bind(static_cast<int64_t>(limit));
  std::vector<v1::ActivationSet> sets;
  while (true) {
    LORSA_ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) return sets;
    LORSA_ASSIGN_OR_RETURN(v1::ActivationSet set, SetFromRow(statement));
    sets.push_back(std::move(set));
  }
}

}  // namespace lorsa::server
