#include "trainer/train/rollback.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace lorsa::trainer {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "lorsa-rollbacks";
constexpr int kFormatVersion = 1;
constexpr uint64_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxRollbacks = 1000;
constexpr int64_t kAnyStep = std::numeric_limits<int64_t>::max();
constexpr char kNotFinitePayload[] = "lorsa.trainer/not_finite";

absl::StatusOr<Rollbacks> Parse(absl::string_view text) {
  LORSA_ASSIGN_OR_RETURN(const json value, ParseJsonObject(text, /*max_depth=*/3));
  JsonFields fields(value, "");
  if (fields.Text("format") != kFormat) fields.Fail("format", "is not lorsa-rollbacks");
  fields.Integer("format_version", kFormatVersion, kFormatVersion);
  Rollbacks rollbacks = TakeRollbacks(fields, "rollbacks");
  LORSA_RETURN_IF_ERROR(fields.Finish());
  return rollbacks;
}

}  // namespace

double LearningRateFactor(const Rollbacks& rollbacks, int64_t step) {
  // A later one that went back further moves the point from which an earlier one holds.
  int halvings = 0;
  int64_t from = std::numeric_limits<int64_t>::max();
  for (auto rollback = rollbacks.rbegin(); rollback != rollbacks.rend(); ++rollback) {
    from = std::min(from, rollback->to_step);
    halvings += step > from;
  }
  return std::ldexp(1.0, -halvings);
}

bool LeavesOut(const Rollbacks& rollbacks, int64_t step) {
  return std::any_of(rollbacks.begin(), rollbacks.end(),
                     [step](const Rollback& rollback) { return rollback.failed_step == step; });
}

bool IsOfHistory(int64_t step, const Rollbacks& made_after, const Rollbacks& rollbacks) {
  if (made_after.size() > rollbacks.size() ||
      !std::equal(made_after.begin(), made_after.end(), rollbacks.begin())) {
    return false;
  }
  return std::all_of(rollbacks.begin() + static_cast<ptrdiff_t>(made_after.size()), rollbacks.end(),
                     [step](const Rollback& later) { return step <= later.to_step; });
}

json RollbacksToJson(const Rollbacks& rollbacks) {
  json array = json::array();
  for (const Rollback& rollback : rollbacks) {
    array.push_back({{"failed_step", rollback.failed_step}, {"to_step", rollback.to_step}});
  }
  return array;
}

Rollbacks TakeRollbacks(JsonFields& fields, const std::string& key) {
  const json& array = fields.Required(key);
  Rollbacks rollbacks;
  if (!array.is_array() || array.size() > kMaxRollbacks) {
    fields.Fail(fields.Path(key), absl::StrCat("is not a list of at most ", kMaxRollbacks));
    return rollbacks;
  }
  for (const json& item : array) {
    const std::string path = absl::StrCat(fields.Path(key), "[", rollbacks.size(), "]");
    if (!item.is_object()) {
      fields.Fail(path, "is not an object");
      return rollbacks;
    }
    JsonFields members(item, path);
    Rollback rollback{.failed_step = members.Integer("failed_step", 1, kAnyStep)};
    rollback.to_step =
        members.Integer("to_step", 0, std::max<int64_t>(rollback.failed_step, 1) - 1);
    fields.Take(members.Finish());
    rollbacks.push_back(rollback);
  }
  return rollbacks;
}

absl::StatusOr<Rollbacks> ReadRollbacks(FileSystem& fs, const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const bool exists, fs.Exists(path));
  if (!exists) return Rollbacks();
  LORSA_ASSIGN_OR_RETURN(const std::string text, ReadFile(fs, path, kMaxFileBytes));
  absl::StatusOr<Rollbacks> rollbacks = Parse(text);
  if (rollbacks.ok()) return rollbacks;
  return absl::DataLossError(absl::StrCat(path, " is damaged: ", rollbacks.status().message(),
                                          "; restore it, or start a new run."));
}

absl::Status WriteRollbacks(FileSystem& fs, const std::string& path, const Rollbacks& rollbacks) {
  const json value = {{"format", kFormat},
                      {"format_version", kFormatVersion},
                      {"rollbacks", RollbacksToJson(rollbacks)}};
  return WriteFileAtomically(fs, path, value.dump(2) + "\n");
}

absl::Status NotFiniteError(absl::string_view message) {
  absl::Status status = absl::AbortedError(message);
  status.SetPayload(kNotFinitePayload, absl::Cord());
  return status;
}

bool IsNotFinite(const absl::Status& status) {
  return status.GetPayload(kNotFinitePayload).has_value();
}

}  // namespace lorsa::trainer
