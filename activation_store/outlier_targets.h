// Targets that are far larger than the others of their set. A squared error follows them at the
// expense of all others, so their owner should know of them.
#ifndef LORSA_ACTIVATION_STORE_OUTLIER_TARGETS_H_
#define LORSA_ACTIVATION_STORE_OUTLIER_TARGETS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace lorsa::store {

// An outlier's norm is above this many times the set's mean norm of mhsa_output.
inline constexpr double kOutlierRatio = 10;
// Outliers that are counted at most, and of which the place is told.
inline constexpr size_t kMaxOutliers = 1000;
inline constexpr size_t kOutliersNamed = 10;

struct TargetNorm {
  int64_t sequence = 0;  // index in the set
  int64_t position = 0;
  double norm = 0;  // Euclidean, of mhsa_output
};

struct OutlierTargets {
  int64_t count = 0;                // at most kMaxOutliers
  std::vector<TargetNorm> largest;  // at most kOutliersNamed, in descending order of norm
};

// "3 targets have more than 10 times the mean norm 2.3: sequence 17 position 4 (norm 108), …";
// empty if there is none.
std::string OutliersText(const OutlierTargets& outliers, double mean_norm);

// Keeps the largest norms of a pass over a set, whose mean is known only at its end.
class LargestNorms {
 public:
  // `norms` [context] of one sequence; 0 where masked.
  void Add(int64_t sequence, absl::Span<const double> norms);
  OutlierTargets Above(double mean_norm) const;

 private:
  std::vector<TargetNorm> heap_;  // the smallest first; at most kMaxOutliers
};

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_OUTLIER_TARGETS_H_
