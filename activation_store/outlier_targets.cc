#include "activation_store/outlier_targets.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lorsa::store {
namespace {

// A strict order, so that what is kept does not depend on the heap.
bool IsLarger(const TargetNorm& a, const TargetNorm& b) {
  if (a.norm != b.norm) return a.norm > b.norm;
  return a.sequence != b.sequence ? a.sequence < b.sequence : a.position < b.position;
}

}  // namespace

std::string OutliersText(const OutlierTargets& outliers, double mean_norm) {
  if (outliers.count == 0) return "";
  const auto format = [](std::string* out, const TargetNorm& target) {
    absl::StrAppend(out, "sequence ", target.sequence, " position ", target.position, " (norm ",
                    target.norm, ")");
  };
  const bool more = outliers.count > static_cast<int64_t>(outliers.largest.size());
  return absl::StrCat(outliers.count == kMaxOutliers ? "at least " : "", outliers.count,
                      outliers.count == 1 ? " target has" : " targets have", " more than ",
                      kOutlierRatio, " times the mean norm ", mean_norm, ": ",
                      absl::StrJoin(outliers.largest, ", ", format), more ? ", …" : "");
}

void LargestNorms::Add(int64_t sequence, absl::Span<const double> norms) {
  for (size_t position = 0; position < norms.size(); ++position) {
    const TargetNorm target{sequence, static_cast<int64_t>(position), norms[position]};
    if (target.norm == 0) continue;
    const bool full = heap_.size() == kMaxOutliers;
    if (full && !IsLarger(target, heap_.front())) continue;
    if (full) {
      std::pop_heap(heap_.begin(), heap_.end(), &IsLarger);
      heap_.pop_back();
    }
    heap_.push_back(target);
    std::push_heap(heap_.begin(), heap_.end(), &IsLarger);
  }
}

OutlierTargets LargestNorms::Above(double mean_norm) const {
  OutlierTargets outliers;
  for (const TargetNorm& target : heap_) {
    if (target.norm > kOutlierRatio * mean_norm) outliers.largest.push_back(target);
  }
  outliers.count = static_cast<int64_t>(outliers.largest.size());
  std::sort(outliers.largest.begin(), outliers.largest.end(), &IsLarger);
  if (outliers.largest.size() > kOutliersNamed) outliers.largest.resize(kOutliersNamed);
  return outliers;
}

}  // namespace lorsa::store
