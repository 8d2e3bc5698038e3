#include "server/rpc/stream_slots.h"

#include "absl/strings/str_cat.h"
#include "base/error_details.h"

namespace lorsa::server {
namespace {

std::string NameOf(const Caller& caller) {
  if (!caller.worker.has_value()) return absl::StrCat("client ", caller.host);
  return absl::StrCat("worker of job ", caller.worker->job_id, ", attempt ",
                      caller.worker->attempt);
}

}  // namespace

absl::StatusOr<std::shared_ptr<void>> StreamSlots::Take(const Caller& caller) {
  const bool is_client = !caller.worker.has_value();
  const int own_bound = is_client ? bounds_.per_client : bounds_.per_worker;
  const std::string name = NameOf(caller);
  absl::MutexLock lock(&counts_->mutex);
  if (is_client && counts_->clients >= bounds_.in_all) return TooMany(bounds_.in_all, "clients");
  int& own = counts_->by_caller[name];
  if (own >= own_bound) return TooMany(own_bound, name);
  ++own;
  counts_->clients += is_client ? 1 : 0;
  return std::shared_ptr<void>(counts_.get(), [counts = counts_, name, is_client](void*) {
    GiveBack(*counts, name, is_client);
  });
}

void StreamSlots::GiveBack(Counts& counts, const std::string& caller, bool is_client) {
  absl::MutexLock lock(&counts.mutex);
  counts.clients -= is_client ? 1 : 0;
  const auto own = counts.by_caller.find(caller);
  if (--own->second == 0) counts.by_caller.erase(own);
}

absl::Status StreamSlots::TooMany(int bound, absl::string_view of_whom) const {
  return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                        "too many ", kind_, " are open: the server serves at most ", bound, " to ",
                        of_whom, " at once; end one of them, or try again later")),
                    "TOO_MANY_STREAMS");
}

std::string StreamSlots::Shortage() const {
  absl::MutexLock lock(&counts_->mutex);
  if (counts_->clients < bounds_.in_all) return "";
  return absl::StrCat("clients have all ", bounds_.in_all, " ", kind_,
                      " that the server serves at once; end some, or raise the bound (limits in "
                      "the configuration)");
}

}  // namespace lorsa::server
