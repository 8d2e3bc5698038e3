#include "job_spec/retention.h"

#include <algorithm>
#include <set>

namespace lorsa {
namespace {

using Checkpoints = std::vector<RetainedCheckpoint>;

void KeepNewest(const Checkpoints& checkpoints, int64_t count, std::set<int64_t>& kept) {
  const int64_t size = static_cast<int64_t>(checkpoints.size());
  for (int64_t i = std::max<int64_t>(size - std::max<int64_t>(count, 1), 0); i < size; ++i) {
    kept.insert(checkpoints[i].step);
  }
  const auto scheduled =
      std::find_if(checkpoints.rbegin(), checkpoints.rend(),
                   [](const RetainedCheckpoint& checkpoint) { return checkpoint.scheduled; });
  if (scheduled != checkpoints.rend()) kept.insert(scheduled->step);
}

void KeepBest(const Checkpoints& checkpoints, std::set<int64_t>& kept) {
  const RetainedCheckpoint* best = nullptr;
  for (const RetainedCheckpoint& checkpoint : checkpoints) {
    if (!checkpoint.fvu.has_value()) continue;
    if (best == nullptr || *checkpoint.fvu <= *best->fvu) best = &checkpoint;
  }
  if (best != nullptr) kept.insert(best->step);
}

void KeepEveryTokens(const Checkpoints& checkpoints, int64_t tokens, std::set<int64_t>& kept) {
  int64_t interval = -1;
  for (const RetainedCheckpoint& checkpoint : checkpoints) {
    if (checkpoint.tokens / tokens > interval) kept.insert(checkpoint.step);
    interval = std::max(interval, checkpoint.tokens / tokens);
  }
}

}  // namespace

std::vector<int64_t> CheckpointsToDelete(const Checkpoints& checkpoints,
                                         const RetentionPolicy& policy) {
  std::set<int64_t> kept;
  KeepNewest(checkpoints, policy.keep_checkpoints, kept);
  KeepBest(checkpoints, kept);
  if (policy.keep_every_tokens > 0) {
    KeepEveryTokens(checkpoints, policy.keep_every_tokens, kept);
  }
  std::vector<int64_t> deleted;
  for (const RetainedCheckpoint& checkpoint : checkpoints) {
    if (!checkpoint.pinned && !kept.contains(checkpoint.step)) deleted.push_back(checkpoint.step);
  }
  return deleted;
}

}  // namespace lorsa
