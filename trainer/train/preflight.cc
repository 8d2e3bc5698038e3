#include "trainer/train/preflight.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainer/resources/resource_estimate.h"

namespace lorsa::trainer {
namespace {

// What to change when memory does not suffice: what takes most of it.
const char* MemoryKnob(const ResourceEstimate& estimate) {
  const int64_t by_size =
      estimate.weights + estimate.moments + estimate.gradients + estimate.snapshot;
  return estimate.step + estimate.batches > by_size ? "lower sequences_per_step, or n_ov_heads"
                                                    : "lower n_ov_heads or n_qk_heads";
}

absl::Status CheckMemory(const ResourceEstimate& estimate, RunHost& host) {
  const absl::StatusOr<MemoryUse> use = host.memory_use();
  if (!use.ok()) {
    host.ReportWarning(
        absl::StrCat("The memory that the run needs, ", BytesText(estimate.memory()),
                     ", is not compared with the machine's: ", use.status().message()));
    return absl::OkStatus();
  }
  // What this process holds already is part of what the run needs.
  const int64_t available = use->available + use->resident;
  if (estimate.memory() <= available) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("The run needs about ", BytesText(estimate.memory()), " of memory (",
                   MemoryText(estimate), ") and ", BytesText(available), " are available; ",
                   MemoryKnob(estimate), ", or give the worker more memory."));
}

absl::Status CheckDisk(const ResourceEstimate& estimate, RunHost& host) {
  const absl::StatusOr<uint64_t> free = host.file_system().FreeBytes(host.staging_folder());
  if (!free.ok()) {
    host.ReportWarning(absl::StrCat("The disk that checkpoints need, ", BytesText(estimate.disk()),
                                    ", is not compared with what is ",
                                    "free: ", free.status().message()));
    return absl::OkStatus();
  }
  const int64_t available = static_cast<int64_t>(*free);
  if (estimate.disk() <= available) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("The run's checkpoints need about ", BytesText(estimate.disk()), " (",
                   estimate.kept_checkpoints, " of ", BytesText(estimate.checkpoint), " each) and ",
                   BytesText(available), " are free at ", host.staging_folder(),
                   "; lower keep_checkpoints, raise keep_every_tokens or make room."));
}

}  // namespace

absl::Status CheckResources(const TrainConfig& config, RunHost& host, bool fresh) {
  const ResourceEstimate estimate = EstimateResources(config);
  LORSA_RETURN_IF_ERROR(CheckMemory(estimate, host));
  return fresh ? CheckDisk(estimate, host) : absl::OkStatus();
}

}  // namespace lorsa::trainer
