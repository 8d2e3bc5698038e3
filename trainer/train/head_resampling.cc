// Letters of shapes: B sequences, S positions, N unmasked targets of the sample, d = d_model, G QK
// heads, D = d_qk, R = H/G OV heads of a QK head, r dimensions that a QK head's OV heads read, n
// new heads.
#include "trainer/train/head_resampling.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "trainer/lorsa/causal_pattern.h"

namespace lorsa::trainer {
namespace {

// Added to the diagonal of the covariance of u, relative to its mean: as at the initialisation.
constexpr double kRidge = 0.1;

at::Tensor InDouble(const at::Tensor& tensor) { return tensor.to(at::kDouble); }

// What the current weights make of the sample.
struct Residuals {
  std::vector<at::Tensor> q, k;  // of each batch, [B, S, G, D]
  at::Tensor error_Nd;           // y−ŷ
  at::Tensor least_kept_N;       // lowest score of the kept heads; > 0
};

// Lowest score of the active heads of each token, [T]; infinite where none is active.
at::Tensor LeastKept(const LorsaConfig& config, const Activations& activations,
                     const at::Tensor& w_o) {
  at::Tensor scores = activations.values.abs();
  if (config.selection == Selection::kSigned || config.select_by_decoder_norm) {
    scores = scores * w_o.norm(2, {1}).index_select(0, activations.heads.flatten()).view_as(scores);
  }
  return scores.masked_fill(activations.values == 0, INFINITY).amin(-1);
}

Residuals ComputeResiduals(LorsaKernel& kernel, const LorsaParameters& parameters,
                           const TrainingSample& sample) {
  Residuals out;
  std::vector<at::Tensor> errors, least;
  for (const LoadedBatch& loaded : sample) {
    const Batch& batch = loaded.batch;
    const ForwardResult forward = kernel.Forward(parameters, batch.x);
    errors.push_back(TargetRows(batch.y - forward.reconstruction, batch.mask));
    const at::Tensor least_T = LeastKept(kernel.config(), forward.activations, parameters.w_o);
    least.push_back(TargetRows(least_T.view_as(batch.mask), batch.mask));
    auto [q, k] = QueriesAndKeys(kernel.config(), parameters, batch.x);
    out.q.push_back(std::move(q));
    out.k.push_back(std::move(k));
  }
  out.error_Nd = at::cat(errors);
  const at::Tensor least_N = at::cat(least);
  // A target with no active head takes any new one: count it as the easiest of the others.
  const at::Tensor finite = least_N.isfinite();
  const at::Tensor floor = finite.any().item<bool>() ? least_N.amin() : at::ones({}, at::kFloat);
  out.least_kept_N = at::where(finite, least_N, floor);
  return out;
}

// The right singular vectors of `rows` [R, d], largest first: [r, d], r ≤ `limit`, at least one.
// From the eigenvectors of the smaller Gram matrix, many times faster than the decomposition of the
// rows themselves; singular values below 1e-4 of the largest, which that would blur, are left out.
at::Tensor LeadingDirections(const at::Tensor& rows, int64_t limit) {
  const bool wide = rows.size(1) > rows.size(0);
  const auto [squares, vectors] =
      at::linalg_eigh(wide ? rows.matmul(rows.t()) : rows.t().matmul(rows));
  const int64_t rank = (squares > 1e-8 * squares[-1]).sum().item<int64_t>();
  const int64_t count = std::clamp<int64_t>(rank, 1, limit);
  const at::Tensor leading = vectors.narrow(1, squares.size(0) - count, count).flip(1).t();
  return wide ? UnitRows(leading.matmul(rows)) : leading;
}

// [r, d] orthonormal rows: the leading directions of what the group's live heads read, each weighed
// by what it writes. All of its heads count where none is live.
at::Tensor ReadBasis(const LorsaConfig& config, const at::Tensor& w_v_Rd, const at::Tensor& w_o_Rd,
                     const at::Tensor& dead_R) {
  at::Tensor weights = w_o_Rd.norm(2, {1});
  if (!dead_R.all().item<bool>()) weights = weights.masked_fill(dead_R, 0);
  return LeadingDirections(InDouble(w_v_Rd * weights.unsqueeze(1)), config.d_qk);
}

// u at the targets: [N, r].
at::Tensor SeenValues(const LorsaConfig& config, const TrainingSample& sample,
                      const Residuals& residuals, int64_t group, const at::Tensor& basis_rd) {
  const at::Tensor read_dr = basis_rd.t().to(at::kFloat);
  std::vector<at::Tensor> seen;
  for (size_t i = 0; i < sample.size(); ++i) {
    const at::Tensor pattern_BSS =
        CausalPattern(residuals.q[i].narrow(2, group, 1), residuals.k[i].narrow(2, group, 1),
                      config.attn_scale)
            .squeeze(1);
    const at::Tensor values_BSr = at::matmul(sample[i].batch.x, read_dr);
    seen.push_back(TargetRows(at::matmul(pattern_BSS, values_BSr), sample[i].batch.mask));
  }
  return at::cat(seen);
}

// What the group sees, and what of the errors follows from it linearly: ê = centred·map.
struct Regression {
  at::Tensor mean_r;      // of u
  at::Tensor centred_Nr;  // u − mean, float as u is
  at::Tensor regular_rr;  // their covariance with the ridge
  at::Tensor map_rd;
};

Regression Regress(const at::Tensor& u_Nr, const at::Tensor& error_Nd) {
  const double targets = static_cast<double>(u_Nr.size(0));
  const at::Tensor mean_r = u_Nr.mean(0);
  const at::Tensor centred_Nr = u_Nr - mean_r;
  const at::Tensor covariance = InDouble(centred_Nr.t().matmul(centred_Nr)) / targets;
  const double ridge = kRidge * covariance.diagonal().mean().item<double>() + 1e-30;
  const at::Tensor regular = covariance + ridge * at::eye(u_Nr.size(1), covariance.options());
  const at::Tensor map_rd =
      at::linalg_solve(regular, InDouble(centred_Nr.t().matmul(error_Nd)) / targets);
  return {.mean_r = InDouble(mean_r),
          .centred_Nr = centred_Nr,
          .regular_rr = regular,
          .map_rd = map_rd};
}

// `count` row numbers, each with probability ∝ ‖ê‖ of its row.
at::Tensor DrawTargets(const Regression& seen, int64_t count, at::Generator& generator) {
  const at::Tensor gram_rr = seen.map_rd.matmul(seen.map_rd.t()).to(at::kFloat);
  at::Tensor weights_N =
      (seen.centred_Nr.matmul(gram_rr) * seen.centred_Nr).sum(-1).clamp_min(0).sqrt();
  // Every target can be drawn, so that there are enough of them.
  weights_N = InDouble(weights_N).cpu();
  weights_N = weights_N + 1e-9 * weights_N.mean() + 1e-30;
  return weights_N.multinomial(count, /*replacement=*/count > weights_N.numel(), generator)
      .to(seen.mean_r.device());
}

// For each column of `z` [N, n]: the factor that makes it exceed `least_kept` at `rows` targets; 0
// where none does.
at::Tensor FactorsToFire(const at::Tensor& z_Nn, const at::Tensor& least_kept_N, int64_t rows) {
  const at::Tensor relative = z_Nn / least_kept_N.unsqueeze(1);
  const at::Tensor quantile_n =
      std::get<0>(relative.kthvalue(relative.size(0) - rows + 1, /*dim=*/0));
  return at::where(quantile_n > 0, quantile_n.reciprocal(), at::zeros_like(quantile_n));
}

// Mean norm of the rows of live heads, or of all where none is live.
double MeanNorm(const at::Tensor& matrix, const at::Tensor& dead) {
  const at::Tensor norms = matrix.norm(2, {1});
  const bool none_lives = dead.all().item<bool>();
  return (none_lives ? norms : norms.masked_select(dead.logical_not())).mean().item<double>();
}

// Targets at which a new head should be active.
int64_t FiringRows(const TrainConfig& config, int64_t targets) {
  const double share = config.resample_firing_factor * static_cast<double>(config.lorsa.top_k) /
                       static_cast<double>(config.lorsa.n_ov_heads);
  return std::clamp<int64_t>(std::llround(share * static_cast<double>(targets)), 1, targets);
}

struct Norms {
  double read = 0;
  double write = 0;
};

HeadRows ResampleGroup(const TrainConfig& config, const Residuals& residuals,
                       const at::Tensor& u_Nr, const at::Tensor& basis_rd, const Norms& norms,
                       const at::Tensor& heads, at::Generator& generator) {
  const Regression seen = Regress(u_Nr, residuals.error_Nd);
  const at::Tensor drawn = DrawTargets(seen, heads.numel(), generator);
  const at::Tensor drawn_nr = InDouble(seen.centred_Nr.index_select(0, drawn));
  at::Tensor read_nr = UnitRows(at::linalg_solve(seen.regular_rr, drawn_nr.t()).t()) * norms.read;
  const at::Tensor z_Nn = InDouble(seen.centred_Nr).matmul(read_nr.t());
  const at::Tensor factors =
      FactorsToFire(z_Nn, InDouble(residuals.least_kept_N), FiringRows(config, u_Nr.size(0)));
  at::Tensor write_nd = UnitRows(drawn_nr.matmul(seen.map_rd));
  const bool norm_counts =
      config.lorsa.select_by_decoder_norm || config.lorsa.selection == Selection::kSigned;
  if (norm_counts && config.decoder_norm == 0) {
    write_nd = write_nd * factors.unsqueeze(1);
  } else {
    read_nr = read_nr * factors.unsqueeze(1) / (norm_counts ? config.decoder_norm : 1);
    write_nd = write_nd * norms.write;
  }
  return {.heads = heads,
          .w_v = read_nr.matmul(basis_rd).to(at::kFloat),
          .b_v = -read_nr.matmul(seen.mean_r).to(at::kFloat),
          .w_o = write_nd.to(at::kFloat)};
}

}  // namespace

HeadRows ResampleHeads(const TrainConfig& config, LorsaKernel& kernel,
                       const LorsaParameters& parameters, const TrainingSample& sample,
                       const at::Tensor& dead, at::Generator& generator) {
  const LorsaConfig& lorsa = config.lorsa;
  const Residuals residuals = ComputeResiduals(kernel, parameters, sample);
  const Norms norms{
      .read = MeanNorm(parameters.w_v, dead),
      .write = config.decoder_norm > 0 ? config.decoder_norm : MeanNorm(parameters.w_o, dead)};
  const int64_t R = lorsa.n_ov_heads / lorsa.n_qk_heads;
  std::vector<at::Tensor> heads, w_v, b_v, w_o;
  for (int64_t group = 0; group < lorsa.n_qk_heads; ++group) {
    const auto of_group = [&](const at::Tensor& all) { return all.narrow(0, group * R, R); };
    const at::Tensor dead_R = of_group(dead);
    if (!dead_R.any().item<bool>()) continue;
    const at::Tensor basis_rd =
        ReadBasis(lorsa, of_group(parameters.w_v), of_group(parameters.w_o), dead_R);
    const at::Tensor u_Nr = SeenValues(lorsa, sample, residuals, group, basis_rd);
    const HeadRows rows = ResampleGroup(config, residuals, u_Nr, basis_rd, norms,
                                        dead_R.nonzero().flatten() + group * R, generator);
    heads.push_back(rows.heads);
    w_v.push_back(rows.w_v);
    b_v.push_back(rows.b_v);
    w_o.push_back(rows.w_o);
  }
  return {.heads = at::cat(heads), .w_v = at::cat(w_v), .b_v = at::cat(b_v), .w_o = at::cat(w_o)};
}

}  // namespace lorsa::trainer
