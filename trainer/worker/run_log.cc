#include "trainer/worker/run_log.h"

#include "base/memory_use.h"
#include "spdlog/spdlog.h"
#include "trainer/resources/resource_estimate.h"

namespace lorsa::worker {

void SetLogPattern(const std::string& fields) {
  spdlog::set_pattern(
      "%Y-%m-%dT%H:%M:%S.%eZ level=%l " + (fields.empty() ? "" : fields + " ") + "%v",
      spdlog::pattern_time_type::utc);
}

void LogExpected(const trainer::TrainConfig& config) {
  const trainer::ResourceEstimate estimate = trainer::EstimateResources(config);
  spdlog::info("event=run_expected peak_memory_bytes={} checkpoint_bytes={} disk_bytes={}",
               estimate.first_rank(), estimate.checkpoint, estimate.disk());
}

void LogTaken(const trainer::RunOutcome& outcome) {
  const MemoryUse use = ReadMemoryUse().value_or(MemoryUse());
  spdlog::info("event=run_taken peak_memory_bytes={} seconds={:.0f} expected_seconds={:.0f}",
               use.peak, absl::ToDoubleSeconds(outcome.took),
               absl::ToDoubleSeconds(outcome.expected));
}

}  // namespace lorsa::worker
