// Reads every byte of sets and checkpoints again, on a schedule, before somebody needs them.
#ifndef LORSA_SERVER_SERVICES_SCRUBBER_H_
#define LORSA_SERVER_SERVICES_SCRUBBER_H_

#include <functional>
#include <stop_token>
#include <thread>

#include "absl/time/time.h"
#include "base/file_system.h"
#include "server/catalog/catalog.h"
#include "server/model/data_layout.h"
#include "server/services/set_quarantine.h"

namespace lorsa::server {

struct ScrubberEnvironment {
  Catalog& catalog;
  FileSystem& fs;
  SetQuarantine& quarantine;
  DataLayout layout;
  std::function<absl::Time()> now;
  absl::Duration interval;  // at least so often each of them is read
  // Of sets, so that a pass leaves the disk to those who work with it; 0 = no bound.
  int64_t max_bytes_per_second = 64 << 20;
};

// One pass over what is due: sets that are READY, and checkpoints, whose last look is an interval
// ago. Damage is stored with them (a set is quarantined, a checkpoint marked) and logged; what
// cannot be read just now is left for the next pass. Ends early when `stop` is requested.
void ScrubOnce(const ScrubberEnvironment& environment, const std::stop_token& stop);

// Scrubs, as long as it lives, on a thread of its own.
class Scrubber {
 public:
  // All of the environment outlives this; its interval is not zero.
  explicit Scrubber(const ScrubberEnvironment& environment);

 private:
  std::jthread thread_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_SCRUBBER_H_
