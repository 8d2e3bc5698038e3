// What it means for the server that a set is damaged: the set is not streamed any more, and jobs
// that train on it are paused with the reason.
#ifndef LORSA_SERVER_SERVICES_SET_QUARANTINE_H_
#define LORSA_SERVER_SERVICES_SET_QUARANTINE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "activation_store/activation_set.h"
#include "lorsa/v1/activation_service.pb.h"
#include "server/catalog/catalog.h"
#include "server/inspection/inspector.h"

namespace lorsa::server {

// Of a sentence about what is wrong with a set; what is longer is cut off.
inline constexpr size_t kMaxProblemBytes = 1024;

// OK, or FAILED_PRECONDITION (SET_QUARANTINED) that says why the set is and what to do.
absl::Status CheckNotQuarantined(const v1::ActivationSet& set);

// Thread-safe; blocks on the catalog.
class SetQuarantine {
 public:
  // Pauses a job if it runs, for the reason given.
  using PauseJob = std::function<void(const std::string& job_id, const std::string& why)>;

  // `catalog` and `inspector` outlive this.
  SetQuarantine(Catalog& catalog, const Inspector& inspector, std::function<absl::Time()> now,
                PauseJob pause_job)
      : catalog_(catalog),
        inspector_(inspector),
        now_(std::move(now)),
        pause_job_(std::move(pause_job)) {}

  // The set is QUARANTINED with these problems, of which there is one at least, in addition to
  // those that it has; then jobs that train on it are paused. ABORTED if another set has its name
  // by now.
  absl::StatusOr<v1::ActivationSet> Impose(const v1::ActivationSet& set,
                                           const std::vector<std::string>& problems);

  // Has a child parse the set and, unless that already fails, reads every byte of it
  // (store::VerifySet) and compares its manifest with the one that was registered. If there are
  // problems the set is then QUARANTINED and jobs that train on it are paused; the problems that it
  // had when the reading began are replaced. If there are none it is READY, unless damage was
  // reported after the reading began: ABORTED (REPORTED_MEANWHILE). On error, CANCELLED if
  // `progress` returned false among them, nothing is changed.
  absl::StatusOr<store::VerificationReport> Verify(const v1::ActivationSet& set,
                                                   const store::ProgressFunction& progress);

  // Pauses those of the jobs on a quarantined set that have started since.
  void PauseJobs(const v1::ActivationSet& set) const;

 private:
  absl::StatusOr<store::VerificationReport> Examine(const v1::ActivationSet& set,
                                                    const store::ProgressFunction& progress);
  // `seen`: the set when the reading began.
  absl::Status Record(const std::string& id, const v1::ActivationSet& seen,
                      const std::vector<std::string>& problems);

  Catalog& catalog_;
  const Inspector& inspector_;
  const std::function<absl::Time()> now_;
  const PauseJob pause_job_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_SET_QUARANTINE_H_
