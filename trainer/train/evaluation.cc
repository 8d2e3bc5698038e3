#include "trainer/train/evaluation.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/status_macros.h"

namespace lorsa::trainer {

void EvaluationSums::Add(const Batch& batch, const ForwardResult& forward) {
  const at::Tensor mask_T = batch.mask.flatten();
  const at::Tensor rows = mask_T.nonzero().flatten();
  if (rows.numel() == 0) return;
  targets_ += rows.numel();
  AddErrors(batch.y.flatten(0, 1).index_select(0, rows).to(at::kDouble),
            forward.reconstruction.flatten(0, 1).index_select(0, rows).to(at::kDouble));
  AddActivity(forward.activations, mask_T);
}

void EvaluationSums::AddErrors(const at::Tensor& y_Nd, const at::Tensor& reconstruction_Nd) {
  const at::Tensor errors_N = (y_Nd - reconstruction_Nd).square().sum(-1);
  squared_error_ += errors_N.sum().item<double>();
  cosine_ += at::cosine_similarity(y_Nd, reconstruction_Nd, -1).sum().item<double>();
  target_sum_ = target_sum_.defined() ? target_sum_ + y_Nd.sum(0) : y_Nd.sum(0);
  target_squares_ += y_Nd.square().sum().item<double>();

  const at::Tensor variances_N = (y_Nd - y_Nd.mean(0)).square().sum(-1);
  const double variance = variances_N.sum().item<double>();
  if (variance > 0) {
    explained_variance_ += 1 - errors_N.sum().item<double>() / variance;
    ++batches_;
  }
  const at::Tensor varied_N = variances_N > 0;
  unexplained_ratio_ += (errors_N / variances_N).masked_select(varied_N).sum().item<double>();
  tokens_with_variance_ += varied_N.sum().item<int64_t>();
}

void EvaluationSums::AddActivity(const Activations& activations, const at::Tensor& mask_T) {
  const at::Tensor active = (activations.values != 0).logical_and(mask_T.unsqueeze(-1));
  const at::Tensor heads = activations.heads.masked_select(active);
  const at::Tensor counts = at::bincount(heads, /*weights=*/{}, n_ov_heads_);
  firings_ = firings_.defined() ? firings_ + counts : counts;
  const at::Tensor sizes = activations.values.masked_select(active).abs();
  if (sizes.numel() == 0) return;
  activation_sum_ += sizes.sum(at::kDouble).item<double>();
  activation_max_ = std::max(activation_max_, sizes.max().item<double>());
}

absl::StatusOr<std::map<std::string, double>> EvaluationSums::Metrics() const {
  const double n = static_cast<double>(targets_);
  const double variance =
      targets_ == 0 ? 0 : target_squares_ - target_sum_.square().sum().item<double>() / n;
  if (!(variance > 0) || batches_ == 0 || tokens_with_variance_ == 0) {
    return absl::FailedPreconditionError(
        "The held-out sequences have no two different unmasked targets to evaluate on; give a "
        "larger activation set.");
  }
  const double firings = firings_.sum().item<double>();
  const double dead = (firings_ == 0).sum().item<double>();
  const double dense = (firings_ > kDenseShare * n).sum().item<double>();
  const double heads = static_cast<double>(n_ov_heads_);
  return std::map<std::string, double>{
      {"loss", squared_error_ / n},
      {"mse", squared_error_ / n / (output_scale_ * output_scale_)},
      {"fvu", squared_error_ / variance},
      {"explained_variance", explained_variance_ / static_cast<double>(batches_)},
      {"explained_variance_legacy",
       1 - unexplained_ratio_ / static_cast<double>(tokens_with_variance_)},
      {"cosine", cosine_ / n},
      {"l0", firings / n},
      {"activation_mean", firings > 0 ? activation_sum_ / firings : 0},
      {"activation_max", activation_max_},
      {"dead_fraction", dead / heads},
      {"dense_fraction", dense / heads},
      {"targets", n},
  };
}

absl::StatusOr<std::map<std::string, double>> Evaluate(LorsaKernel& kernel,
                                                       const LorsaParameters& parameters,
                                                       BatchReader& reader, int64_t batch_size,
                                                       double output_scale,
                                                       absl::FunctionRef<bool()> should_stop) {
  EvaluationSums sums(kernel.config().n_ov_heads, output_scale);
  while (true) {
    if (should_stop()) return absl::CancelledError("The evaluation was stopped.");
    LORSA_ASSIGN_OR_RETURN(const LoadedBatch loaded, reader.Next(batch_size));
    if (loaded.empty()) return sums.Metrics();
    sums.Add(loaded.batch, kernel.Forward(parameters, loaded.batch.x));
  }
}

}  // namespace lorsa::trainer
