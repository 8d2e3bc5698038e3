// The final refit of the decoder: with reading, patterns and selection as trained, W_O and b_D are
// the solution of a ridge regression, which stochastic steps only come near to.
//
// With Z [N, C] the kept activations of N training targets (C = H, and a column of ones for b_D),
// E [N, d] their errors y−ŷ under the trained weights and λ = ridge · (mean of diag ZᵀZ over
// heads), the change of the decoder is Δ = (ZᵀZ + λ)⁻¹ ZᵀE: it pulls towards the trained W_O, so
// that heads that are seldom active change little. b_D is not penalised.
//
// Changed rows have other norms, and scores are z·‖W_O[i]‖, so other heads may be kept. No
// rescaling avoids that: moving a factor from W_O to W_V leaves the score as it is. Hence Δ is
// tried at a few lengths on training sequences that it was not fitted to, with the selection that
// it makes, and the best one is proposed, or none. The run decides on its held-out sequences.
#ifndef LORSA_TRAINER_TRAIN_DECODER_REFIT_H_
#define LORSA_TRAINER_TRAIN_DECODER_REFIT_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "trainer/config/train_config.h"
#include "trainer/lorsa/lorsa_kernel.h"
#include "trainer/train/run_host.h"

namespace lorsa::trainer {

// ZᵀZ and ZᵀE, in double precision on the CPU: 8·C·(C+d) bytes. Each number is summed target by
// target in the order given, whatever the number of threads.
class NormalEquations {
 public:
  explicit NormalEquations(const LorsaConfig& config);

  // `error` [T, d], `mask` [T] bool: targets that count.
  void Add(const Activations& activations, const at::Tensor& error, const at::Tensor& mask);

  // Δ [C, d], double; the last row is b_D's where there is one. Uses the equations up, and takes
  // 8·C² bytes besides while it runs. FAILED_PRECONDITION if no target had an active head.
  absl::StatusOr<at::Tensor> Solve(double ridge) &&;

 private:
  const int64_t heads_;
  const bool bias_;
  at::Tensor gram_CC_;    // lower triangle
  at::Tensor target_Cd_;  // ZᵀE
};

struct DecoderRefit {
  double length = 0;        // of the best Δ: 1, a share of it, or 0 if none lowered the error
  double error_before = 0;  // squared errors summed over the targets that Δ was tried on
  double error_after = 0;
  // With the best Δ. Tensors that it does not change are shared with the trained ones.
  LorsaParameters parameters;
};

// Refits W_O and b_D of `trained` on the config.refit_tokens before `cursor` of the run's order, at
// most one pass over the training sequences. The last eighth of them decides and is not fitted to,
// also where the window spans the end of an epoch and they occur in it twice.
// CANCELLED when `should_stop` says so, which is asked before each batch; FAILED_PRECONDITION if no
// head was active; else the source's error. Throws c10::Error.
absl::StatusOr<DecoderRefit> RefitDecoder(const TrainConfig& config, RunHost& host,
                                          LorsaKernel& kernel, int64_t cursor, at::Device device,
                                          absl::FunctionRef<bool()> should_stop,
                                          const LorsaParameters& trained);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_DECODER_REFIT_H_
