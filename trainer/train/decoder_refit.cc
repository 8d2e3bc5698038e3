// Letters of shapes: T tokens of a batch, K active heads of each, H OV heads, C = H or H+1 columns,
// d = d_model.
#include "trainer/train/decoder_refit.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "trainer/train/batch_reader.h"
#include "trainer/train/decoder_norm.h"

namespace lorsa::trainer {
namespace {

constexpr std::array<double, 3> kLengths = {1, 0.5, 0.25};
constexpr int64_t kCheckShare = 8;  // one in so many sequences decides on the length

// The non-zeros of Z, token by token and head by head.
struct SparseRows {
  struct Entry {
    int64_t index;  // a head in `tokens`, a token in `columns`
    double value;
  };
  std::vector<std::vector<Entry>> tokens;   // heads in ascending order
  std::vector<std::vector<Entry>> columns;  // tokens in ascending order
};

SparseRows MakeSparse(const Activations& activations, const at::Tensor& mask_T, int64_t heads,
                      bool bias) {
  const at::Tensor heads_TK = activations.heads.cpu().contiguous();
  const at::Tensor values_TK = activations.values.to(at::kCPU, at::kDouble).contiguous();
  const at::Tensor counts_T = mask_T.cpu().contiguous();
  const int64_t T = heads_TK.size(0), K = heads_TK.size(1);
  SparseRows out{.tokens = std::vector<std::vector<SparseRows::Entry>>(T),
                 .columns = std::vector<std::vector<SparseRows::Entry>>(heads + bias)};
  const auto add = [&](int64_t token, int64_t head, double value) {
    out.tokens[token].push_back({head, value});
    out.columns[head].push_back({token, value});
  };
  for (int64_t t = 0; t < T; ++t) {
    if (!counts_T.const_data_ptr<bool>()[t]) continue;
    for (int64_t i = t * K; i < (t + 1) * K; ++i) {
      const double value = values_TK.const_data_ptr<double>()[i];
      if (value != 0) add(t, heads_TK.const_data_ptr<int64_t>()[i], value);
    }
    if (bias) add(t, heads, 1);
  }
  return out;
}

// The decoder changed by `length`·Δ; reading as before. New tensors.
LorsaParameters Changed(const TrainConfig& config, const LorsaParameters& parameters,
                        const at::Tensor& delta_Cd, double length) {
  LorsaParameters out = parameters;
  const int64_t heads = config.lorsa.n_ov_heads;
  const at::Tensor step = (length * delta_Cd).to(parameters.w_o.device(), at::kFloat);
  out.w_o = parameters.w_o + step.narrow(0, 0, heads);
  if (out.b_d.defined()) out.b_d = parameters.b_d + step[heads];
  if (config.decoder_norm > 0) {
    out.w_v = parameters.w_v.clone();
    out.b_v = parameters.b_v.clone();
    MoveDecoderNorm(config.decoder_norm, out);
  }
  return out;
}

double SquaredError(LorsaKernel& kernel, const LorsaParameters& parameters, const Batch& batch) {
  const at::Tensor error_BSd = batch.y - kernel.Forward(parameters, batch.x).reconstruction;
  const at::Tensor squares_BS = error_BSd.square().sum(-1, /*keepdim=*/false, at::kDouble);
  return squares_BS.masked_select(batch.mask).sum().item<double>();
}

class Refit {
 public:
  Refit(const TrainConfig& config, RunHost& host, LorsaKernel& kernel, int64_t cursor,
        at::Device device, absl::FunctionRef<bool()> should_stop)
      : config_(config),
        host_(host),
        kernel_(kernel),
        end_(cursor),
        device_(device),
        should_stop_(should_stop) {
    const int64_t context = config.set.context;
    const int64_t wanted =
        std::min((config.refit_tokens + context - 1) / context, config.set.training_sequences());
    begin_ = std::max<int64_t>(0, end_ - wanted);
    check_ = end_ - std::max<int64_t>(1, (end_ - begin_) / kCheckShare);
  }

  absl::StatusOr<DecoderRefit> Run(const LorsaParameters& trained) {
    LORSA_ASSIGN_OR_RETURN(const double before, JudgeTrained(trained));
    LORSA_ASSIGN_OR_RETURN(const at::Tensor delta_Cd, Fit(trained));
    std::vector<LorsaParameters> candidates;
    for (const double length : kLengths) {
      candidates.push_back(Changed(config_, trained, delta_Cd, length));
    }
    LORSA_ASSIGN_OR_RETURN(const std::vector<double> errors, Judge(candidates));
    DecoderRefit out{.error_before = before, .error_after = before, .parameters = trained};
    for (size_t i = 0; i < errors.size(); ++i) {
      if (!(errors[i] < out.error_after)) continue;  // NaN is no better
      out.length = kLengths[i];
      out.error_after = errors[i];
      out.parameters = candidates[i];
    }
    return out;
  }

 private:
  // The squared error as trained. Notes which sequences decide.
  absl::StatusOr<double> JudgeTrained(const LorsaParameters& trained) {
    double error = 0;
    LORSA_RETURN_IF_ERROR(ForEachBatch(check_, end_, [&](const LoadedBatch& loaded) {
      judges_.insert(loaded.sequences.begin(), loaded.sequences.end());
      error += SquaredError(kernel_, trained, loaded.batch);
    }));
    return error;
  }

  absl::StatusOr<at::Tensor> Fit(const LorsaParameters& trained) {
    NormalEquations equations(config_.lorsa);
    LORSA_RETURN_IF_ERROR(ForEachBatch(begin_, check_, [&](const LoadedBatch& loaded) {
      const ForwardResult forward = kernel_.Forward(trained, loaded.batch.x);
      equations.Add(forward.activations, (loaded.batch.y - forward.reconstruction).flatten(0, 1),
                    WithoutJudges(loaded).flatten());
    }));
    return std::move(equations).Solve(config_.refit_ridge);
  }

  // The batch's mask, false throughout the sequences that decide: the order of another epoch may
  // bring them again.
  at::Tensor WithoutJudges(const LoadedBatch& loaded) const {
    at::Tensor mask_BS = loaded.batch.mask.clone();
    for (size_t i = 0; i < loaded.sequences.size(); ++i) {
      if (judges_.contains(loaded.sequences[i])) mask_BS[static_cast<int64_t>(i)].fill_(false);
    }
    return mask_BS;
  }

  // The squared error with each candidate.
  absl::StatusOr<std::vector<double>> Judge(const std::vector<LorsaParameters>& candidates) {
    std::vector<double> errors(candidates.size());
    LORSA_RETURN_IF_ERROR(ForEachBatch(check_, end_, [&](const LoadedBatch& loaded) {
      for (size_t i = 0; i < candidates.size(); ++i) {
        errors[i] += SquaredError(kernel_, candidates[i], loaded.batch);
      }
    }));
    return errors;
  }

  // Sequences `from` to `to` of the run's order.
  absl::Status ForEachBatch(int64_t from, int64_t to,
                            absl::FunctionRef<void(const LoadedBatch&)> body) {
    LORSA_ASSIGN_OR_RETURN(auto source, host_.OpenTraining(from));
    BatchReader reader(config_, std::move(source), device_);
    while (from < to) {
      if (should_stop_()) return absl::CancelledError("The refit was stopped.");
      const int64_t count = std::min(config_.sequences_per_step, to - from);
      LORSA_ASSIGN_OR_RETURN(const LoadedBatch loaded, reader.Next(count));
      if (loaded.targets > 0) body(loaded);
      from += count;
    }
    return absl::OkStatus();
  }

  const TrainConfig& config_;
  RunHost& host_;
  LorsaKernel& kernel_;
  int64_t begin_ = 0;  // sequences begin_ to check_ are fitted to, check_ to end_ decide
  int64_t check_ = 0;
  std::set<int64_t> judges_;  // those that decide, by their index in the set
  const int64_t end_;
  const at::Device device_;
  const absl::FunctionRef<bool()> should_stop_;
};

}  // namespace

NormalEquations::NormalEquations(const LorsaConfig& config)
    : heads_(config.n_ov_heads), bias_(config.decoder_bias) {
  const int64_t columns = heads_ + bias_;
  gram_CC_ = at::zeros({columns, columns}, at::kDouble);
  target_Cd_ = at::zeros({columns, config.d_model}, at::kDouble);
}

void NormalEquations::Add(const Activations& activations, const at::Tensor& error,
                          const at::Tensor& mask) {
  const SparseRows z = MakeSparse(activations, mask, heads_, bias_);
  const at::Tensor error_Td = error.to(at::kCPU, at::kDouble).contiguous();
  const int64_t columns = gram_CC_.size(0), d = target_Cd_.size(1);
  double* const gram = gram_CC_.mutable_data_ptr<double>();
  double* const target = target_Cd_.mutable_data_ptr<double>();
  const double* const errors = error_Td.const_data_ptr<double>();
  const auto add = [&](int64_t column) {
    for (const auto& [token, value] : z.columns[column]) {
      for (const auto& [other, other_value] : z.tokens[token]) {
        if (other > column) break;
        gram[column * columns + other] += value * other_value;
      }
      for (int64_t j = 0; j < d; ++j) target[column * d + j] += value * errors[token * d + j];
    }
  };
  // Long and short rows of the triangle in pairs, so that all threads have as much to do.
  at::parallel_for(0, (columns + 1) / 2, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      add(i);
      if (columns - 1 - i > i) add(columns - 1 - i);
    }
  });
}

absl::StatusOr<at::Tensor> NormalEquations::Solve(double ridge) && {
  const at::Tensor heads_diagonal = gram_CC_.diagonal().narrow(0, 0, heads_);
  const double mean = heads_diagonal.mean().item<double>();
  if (!(mean > 0)) {
    return absl::FailedPreconditionError(
        "No head was active at the targets that the decoder is refitted to.");
  }
  gram_CC_.diagonal().narrow(0, 0, heads_).add_(ridge * mean);
  at::Tensor lower = at::linalg_cholesky(gram_CC_);
  gram_CC_.reset();
  return at::cholesky_solve(target_Cd_, lower);
}

absl::StatusOr<DecoderRefit> RefitDecoder(const TrainConfig& config, RunHost& host,
                                          LorsaKernel& kernel, int64_t cursor, at::Device device,
                                          absl::FunctionRef<bool()> should_stop,
                                          const LorsaParameters& trained) {
  return Refit(config, host, kernel, cursor, device, should_stop).Run(trained);
}

}  // namespace lorsa::trainer
