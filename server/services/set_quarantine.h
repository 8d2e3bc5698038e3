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
#include "lorsa/v1/activation_service.pb.h"
#include "server/catalog/catalog.h"

namespace lorsa::server {

// OK, or FAILED_PRECONDITION (SET_QUARANTINED) that says why the set is and what to do.
absl::Status CheckNotQuarantined(const v1::ActivationSet& set);

// Thread-safe; blocks on the catalog.
class SetQuarantine {
 public:
  // Pauses a job if it runs, for the reason given.
  using PauseJob = std::function<void(const std::string& job_id, const std::string& why)>;

  // `catalog` outlives this.
  SetQuarantine(Catalog& catalog, std::function<absl::Time()> now, PauseJob pause_job)
      : catalog_(catalog), now_(std::move(now)), pause_job_(std::move(pause_job)) {}

  // The set is QUARANTINED with these problems, of which there is one at least, in addition to
  // those that it has; then jobs that train on it are paused. ABORTED if another set has its name
  // by now.
  absl::StatusOr<v1::ActivationSet> Impose(const v1::ActivationSet& set,
                                           const std::vector<std::string>& problems);

  // What a look at every byte of `set` found: QUARANTINED with just these problems, or READY if
  // there are none.
  absl::StatusOr<v1::ActivationSet> Record(const v1::ActivationSet& set,
                                           const std::vector<std::string>& problems);

  // Pauses those of the jobs on a quarantined set that have started since.
  void PauseJobs(const v1::ActivationSet& set) const;

 private:
  Catalog& catalog_;
  const std::function<absl::Time()> now_;
  const PauseJob pause_job_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_SET_QUARANTINE_H_
