// Metrics of a Lorsa on held-out sequences. Definitions: docs/metrics.md.
#ifndef LORSA_TRAINER_TRAIN_EVALUATION_H_
#define LORSA_TRAINER_TRAIN_EVALUATION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "trainer/lorsa/lorsa_kernel.h"
#include "trainer/train/batch_reader.h"

namespace lorsa::trainer {

// A head is dense if it is active at more than this share of the targets.
inline constexpr double kDenseShare = 0.1;

// Sums over batches; one pass, in double precision. One thread; throws c10::Error.
class EvaluationSums {
 public:
  // Metrics in original units divide by output_scale.
  EvaluationSums(int64_t n_ov_heads, double output_scale)
      : n_ov_heads_(n_ov_heads), output_scale_(output_scale) {}

  // One batch of scaled targets and what the Lorsa made of it. A batch without targets adds
  // nothing.
  void Add(const Batch& batch, const ForwardResult& forward);

  int64_t targets() const { return targets_; }
  // By the names of docs/metrics.md. FAILED_PRECONDITION if there was no target, or all targets
  // were equal, so that the metrics do not exist.
  absl::StatusOr<std::map<std::string, double>> Metrics() const;

 private:
  void AddErrors(const at::Tensor& y_Nd, const at::Tensor& reconstruction_Nd);
  void AddActivity(const Activations& activations, const at::Tensor& mask_T);

  const int64_t n_ov_heads_;
  const double output_scale_;
  int64_t targets_ = 0;
  double squared_error_ = 0;
  double cosine_ = 0;
  at::Tensor target_sum_;          // [d]
  double target_squares_ = 0;      // Σ‖y‖²
  double explained_variance_ = 0;  // summed over batches
  int64_t batches_ = 0;            // that have a variance
  double unexplained_ratio_ = 0;   // summed over tokens
  int64_t tokens_with_variance_ = 0;
  at::Tensor firings_;         // [H] int64
  double activation_sum_ = 0;  // of |z| over active heads
  double activation_max_ = 0;
};

// All sequences that `reader` gives, `batch_size` at a time. Stops with CANCELLED when
// `should_stop` says so, which is asked before each batch.
absl::StatusOr<std::map<std::string, double>> Evaluate(LorsaKernel& kernel,
                                                       const LorsaParameters& parameters,
                                                       BatchReader& reader, int64_t batch_size,
                                                       double output_scale,
                                                       absl::FunctionRef<bool()> should_stop);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_EVALUATION_H_
