#include "server/services/set_quarantine.h"

#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "activation_store/manifest.h"
#include "base/error_details.h"
#include "base/identifiers.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace lorsa::server {
namespace {

constexpr int kMaxProblems = 100;

void AddProblem(v1::ActivationSet& set, const std::string& problem) {
  const std::string text = Utf8Prefix(problem, kMaxProblemBytes);
  const auto& known = set.problems();
  if (known.size() >= kMaxProblems || std::find(known.begin(), known.end(), text) != known.end()) {
    return;
  }
  set.add_problems(text);
}

int64_t RegisterTime(const v1::ActivationSet& set) {
  return google::protobuf::util::TimeUtil::TimestampToNanoseconds(set.register_time());
}

absl::Status CheckSame(const v1::ActivationSet& set, const v1::ActivationSet& stored) {
  if (stored.manifest_sha256() == set.manifest_sha256() &&
      RegisterTime(stored) == RegisterTime(set)) {
    return absl::OkStatus();
  }
  return absl::AbortedError(absl::StrCat(set.name(), " is another set by now"));
}

bool IsQuarantined(const v1::ActivationSet& set) {
  return set.state() == v1::ACTIVATION_SET_STATE_QUARANTINED;
}

absl::Status ReportedMeanwhile(const v1::ActivationSet& set) {
  return WithReason(absl::AbortedError(absl::StrCat(
                        set.name(), " was reported damaged while it was being verified: ",
                        set.problems().empty() ? "it is damaged" : set.problems(0),
                        "; nothing wrong was found, but only a verification that begins after the "
                        "report lifts the quarantine: verify the set again")),
                    "REPORTED_MEANWHILE", {{"activation_set", set.name()}});
}

void LogChange(const v1::ActivationSet& set) {
  if (IsQuarantined(set)) {
    spdlog::error("event=set_quarantined set={} problem=\"{}\"", set.name(), set.problems(0));
  } else {
    spdlog::info("event=set_ready set={}", set.name());
  }
}

}  // namespace

absl::Status CheckNotQuarantined(const v1::ActivationSet& set) {
  if (!IsQuarantined(set)) return absl::OkStatus();
  return WithReason(absl::FailedPreconditionError(
                        absl::StrCat(set.name(), " is quarantined: ",
                                     set.problems().empty() ? "it is damaged" : set.problems(0),
                                     "; restore the file and verify the set")),
                    "SET_QUARANTINED", {{"activation_set", set.name()}});
}

absl::StatusOr<v1::ActivationSet> SetQuarantine::Impose(const v1::ActivationSet& set,
                                                        const std::vector<std::string>& problems) {
  LORSA_ASSIGN_OR_RETURN(const std::string id, IdFromName("activationSets", set.name()));
  bool changed = false;
  LORSA_ASSIGN_OR_RETURN(
      const v1::ActivationSet after,
      catalog_.UpdateActivationSet(id, [&](v1::ActivationSet& stored) -> absl::Status {
        LORSA_RETURN_IF_ERROR(CheckSame(set, stored));
        changed = !IsQuarantined(stored);
        stored.set_state(v1::ACTIVATION_SET_STATE_QUARANTINED);
        for (const std::string& problem : problems) AddProblem(stored, problem);
        return absl::OkStatus();
      }));
  if (changed) LogChange(after);
  PauseJobs(after);
  return after;
}

absl::StatusOr<store::VerificationReport> SetQuarantine::Examine(
    const v1::ActivationSet& set, const store::ProgressFunction& progress) {
  // What the child says is wrong is found again below, with the rest; but a file at which the child
  // came to harm is not opened here.
  const Inspection inspection = inspector_.InspectSet(set.path());
  if (!inspection.ended) {
    if (!absl::IsDataLoss(inspection.status)) return inspection.status;
    return store::VerificationReport{.problems = {std::string(inspection.status.message())}};
  }
  LORSA_ASSIGN_OR_RETURN(store::VerificationReport report,
                         store::VerifySet(*inspection.files, set.path(), progress));
  // The manifest vouches for everything else, so it must be the one that was registered.
  const std::string manifest = JoinPath(set.path(), store::kManifestFile);
  const auto manifest_sha256 = Sha256OfFile(*inspection.files, manifest);
  if (manifest_sha256.ok() && *manifest_sha256 != set.manifest_sha256()) {
    report.problems.push_back(manifest + " is not the one that was registered");
  }
  return report;
}

absl::StatusOr<store::VerificationReport> SetQuarantine::Verify(
    const v1::ActivationSet& set, const store::ProgressFunction& progress) {
  LORSA_ASSIGN_OR_RETURN(const std::string id, IdFromName("activationSets", set.name()));
  LORSA_ASSIGN_OR_RETURN(const v1::ActivationSet seen, catalog_.GetActivationSet(id));
  LORSA_RETURN_IF_ERROR(CheckSame(set, seen));
  LORSA_ASSIGN_OR_RETURN(store::VerificationReport report, Examine(seen, progress));
  LORSA_RETURN_IF_ERROR(Record(id, seen, report.problems));
  return report;
}

absl::Status SetQuarantine::Record(const std::string& id, const v1::ActivationSet& seen,
                                   const std::vector<std::string>& problems) {
  const v1::ActivationSetState state =
      problems.empty() ? v1::ACTIVATION_SET_STATE_READY : v1::ACTIVATION_SET_STATE_QUARANTINED;
  bool changed = false;
  LORSA_ASSIGN_OR_RETURN(
      const v1::ActivationSet after,
      catalog_.UpdateActivationSet(id, [&](v1::ActivationSet& stored) -> absl::Status {
        LORSA_RETURN_IF_ERROR(CheckSame(seen, stored));
        const bool reported = IsQuarantined(stored) && stored.revision() != seen.revision();
        if (reported && problems.empty()) return ReportedMeanwhile(stored);
        changed = stored.state() != state;
        stored.set_state(state);
        if (!reported) stored.clear_problems();
        for (const std::string& problem : problems) AddProblem(stored, problem);
        *stored.mutable_verify_time() =
            google::protobuf::util::TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(now_()));
        return absl::OkStatus();
      }));
  if (changed) LogChange(after);
  if (!problems.empty()) PauseJobs(after);
  return absl::OkStatus();
}

void SetQuarantine::PauseJobs(const v1::ActivationSet& set) const {
  const absl::StatusOr<std::string> id = IdFromName("activationSets", set.name());
  if (!id.ok() || set.problems().empty()) return;
  const auto jobs = catalog_.JobsUsingSet(*id);
  if (!jobs.ok()) {
    spdlog::warn("event=jobs_not_paused set={} error=\"{}\"", set.name(), jobs.status().ToString());
    return;
  }
  for (const std::string& job : *jobs) {
    pause_job_(job, absl::StrCat(set.name(), " is quarantined: ", set.problems(0),
                                 "; restore the file, run `lorsa set verify ", *id,
                                 "`, then resume the job"));
  }
}

}  // namespace lorsa::server
