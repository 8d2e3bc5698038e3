#include "trainer/lorsa/fast_decode.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "trainer/kernels/tasks.h"
#include "trainer/lorsa/fast_selection.h"

namespace lorsa::trainer {
namespace {

using kernels::RowStride;
using kernels::RunTasks;

template <typename T>
SelectionScratch ScratchFor(ThreadScratch<T>& scratch) {
  return {scratch.keys.data(), scratch.heads.data(), scratch.ranked.data()};
}

// Keeps the heads of one token, with their z.
void Keep(Selector& selector, const float* z, int64_t token, KeptHeads& kept) {
  int32_t* heads = kept.heads.data() + token * kept.capacity;
  float* values = kept.values.data() + token * kept.capacity;
  const int64_t count = selector.Select(z, heads);
  for (int64_t j = 0; j < count; ++j) values[j] = z[heads[j]];
  kept.counts.data()[token] = static_cast<int32_t>(count);
}

// row += Σ_kept z_i W_O[i].
template <typename T>
void AddKept(const StepSizes& s, Workspace<T>& work, KeptHeads& kept, int64_t token, float* row) {
  work.loops.typed.gather_sum(
      work.w_o.data(), RowStride<T>(s.dp), kept.heads.data() + token * kept.capacity,
      kept.values.data() + token * kept.capacity, kept.counts.data()[token], s.d, row);
}

// ŷ without the aux heads; `row` [d].
template <typename T>
void DecodeToken(const StepSizes& s, const LorsaParameters& p, Workspace<T>& work, int64_t token,
                 float* row) {
  if (p.b_d.defined()) {
    std::memcpy(row, p.b_d.data_ptr<float>(), s.d * sizeof(float));
  } else {
    std::memset(row, 0, s.d * sizeof(float));
  }
  AddKept(s, work, work.kept, token, row);
}

// One token's losses and gradients, given its kept heads.
template <typename T>
class Comparison {
 public:
  Comparison(const StepSizes& sizes, const LorsaParameters& parameters, const Batch& batch,
             const StepOptions& options, Workspace<T>& workspace, int thread)
      : s(sizes),
        parameters_(parameters),
        y_(batch.y.data_ptr<float>()),
        factor_(static_cast<float>(2.0 / options.loss_targets)),
        aux_factor_(options.aux ? static_cast<float>(factor_ * options.aux->coefficient) : 0),
        work(workspace) {
    ThreadScratch<T>& scratch = work.threads[thread];
    row_ = scratch.row.data();
    error_ = scratch.error.data();
    ignored_sum_ = scratch.error_sum.data();
  }

  void Main(int64_t token, float* b_d_sum) {
    DecodeToken(s, parameters_, work, token, row_);
    Compare(token, y_ + token * s.d, factor_, work.kept, work.output_gradient_Td, work.losses_T,
            b_d_sum);
  }

  // ‖e − ê‖² with e = y − ŷ, which Main has left negated in error_.
  void Aux(int64_t token) {
    work.loops.plain.scale_row(error_, s.d, -1, error_);
    std::memset(row_, 0, s.d * sizeof(float));
    std::memset(ignored_sum_, 0, s.d * sizeof(float));
    AddKept(s, work, work.aux_kept, token, row_);
    Compare(token, error_, aux_factor_, work.aux_kept, work.aux_output_gradient_Td,
            work.aux_losses_T, ignored_sum_);
  }

 private:
  void Compare(int64_t token, const float* target, float factor, KeptHeads& kept,
               kernels::Buffer<T>& output_gradient, kernels::Buffer<double>& losses,
               float* gradient_sum) {
    const int64_t stride = RowStride<T>(s.dp);
    losses.data()[token] = work.loops.typed.error_row(
        row_, target, s.d, factor, error_, output_gradient.data() + token * stride, gradient_sum);
    work.loops.typed.gather_dots(work.w_o.data(), stride, kept.heads.data() + token * kept.capacity,
                                 kept.counts.data()[token], error_, s.d, factor,
                                 kept.gradients.data() + token * kept.capacity);
  }

  const StepSizes& s;
  const LorsaParameters& parameters_;
  const float* y_;
  const float factor_, aux_factor_;
  Workspace<T>& work;
  float *row_, *error_, *ignored_sum_;
};

std::vector<int32_t> TrueIndices(const at::Tensor& flags_H) {
  std::vector<int32_t> indices;
  const bool* flags = flags_H.data_ptr<bool>();
  for (int64_t i = 0; i < flags_H.numel(); ++i) {
    if (flags[i]) indices.push_back(static_cast<int32_t>(i));
  }
  return indices;
}

// Sums in the order of tokens.
void SumTargets(const StepSizes& s, const bool* mask, KeptHeads& kept, const double* losses,
                const double* aux_losses, int64_t loss_targets, StepResult& out) {
  for (int64_t token = 0; token < s.T; ++token) {
    if (!mask[token]) continue;
    ++out.targets;
    out.loss += losses[token];
    if (aux_losses != nullptr) out.aux_loss += aux_losses[token];
    const float* values = kept.values.data() + token * kept.capacity;
    for (int32_t j = 0; j < kept.counts.data()[token]; ++j) {
      const double size = std::abs(values[j]);
      out.activation_sum += size;
      out.activation_max = std::max(out.activation_max, size);
    }
  }
  out.loss /= loss_targets;
  out.aux_loss /= loss_targets;
}

void SumRows(const float* rows, int64_t count, int64_t stride, int64_t n, float* out) {
  std::vector<double> sums(n, 0);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < n; ++j) sums[j] += rows[i * stride + j];
  }
  std::copy(sums.begin(), sums.end(), out);
}

// By counting, in the order of tokens.
void IndexByHead(const StepSizes& s, KeptHeads& kept, TokensOfHeads& out) {
  out.offsets.assign(s.H + 1, 0);
  const int32_t* counts = kept.counts.data();
  const auto for_each = [&](auto visit) {
    for (int64_t token = 0; token < s.T; ++token) {
      const int64_t first = token * kept.capacity;
      for (int64_t j = first; j < first + counts[token]; ++j) {
        if (kept.values.data()[j] != 0) visit(token, kept.heads.data()[j], kept.values.data()[j]);
      }
    }
  };
  for_each([&](int64_t, int32_t head, float) { ++out.offsets[head + 1]; });
  for (int64_t i = 0; i < s.H; ++i) out.offsets[i + 1] += out.offsets[i];
  int32_t* tokens = out.tokens.data();
  float* values = out.values.data();
  std::vector<int64_t> next(out.offsets.begin(), out.offsets.end() - 1);
  for_each([&](int64_t token, int32_t head, float value) {
    const int64_t at = next[head]++;
    tokens[at] = static_cast<int32_t>(token);
    values[at] = value;
  });
}

// row += Σ_t z_t · output gradient of t, over the tokens of one head.
template <typename T>
void AddOutputGradients(const StepSizes& s, Workspace<T>& work, TokensOfHeads& index, int64_t head,
                        kernels::Buffer<T>& output_gradient, float* row) {
  const int64_t from = index.offsets[head];
  work.loops.typed.gather_sum(output_gradient.data(), RowStride<T>(s.dp),
                              index.tokens.data() + from, index.values.data() + from,
                              index.offsets[head + 1] - from, s.d, row);
}

// The kept heads as Forward gives them: K per token, those beyond the kept ones with value 0.
Activations ToActivations(const StepSizes& s, KeptHeads& kept) {
  const int64_t K = kept.capacity;
  Activations out{.heads = at::empty({s.T, K}, at::kLong), .values = at::zeros({s.T, K})};
  int64_t* heads = out.heads.data_ptr<int64_t>();
  float* values = out.values.data_ptr<float>();
  for (int64_t token = 0; token < s.T; ++token) {
    const int32_t* from = kept.heads.data() + token * K;
    const int64_t count = kept.counts.data()[token];
    // Heads that were not kept, lowest first, merged in until there are K.
    int64_t spare = K - count;
    for (int64_t j = 0, next = 0, head = 0; j < K; ++head) {
      const bool is_kept = next < count && from[next] == head;
      if (!is_kept && spare == 0) {
        head = from[next] - 1;
        continue;
      }
      heads[token * K + j] = head;
      if (is_kept) values[token * K + j] = kept.values.data()[token * K + next++];
      spare -= !is_kept;
      ++j;
    }
  }
  return out;
}

}  // namespace

template <typename T>
ForwardResult Decode(const StepSizes& s, const LorsaParameters& p, Workspace<T>& work) {
  at::Tensor reconstruction = at::empty({s.B, s.S, s.d});
  float* out = reconstruction.data_ptr<float>();
  RunTasks(TokenBlocks(s), [&](int64_t task, int thread) {
    Selector selector(work.config, work.loops.plain, work.w_o_norms.data(), work.config.top_k,
                      nullptr, ScratchFor(work.threads[thread]));
    const int64_t end = std::min(s.T, (task + 1) * kTokenBlock);
    for (int64_t token = task * kTokenBlock; token < end; ++token) {
      Keep(selector, work.z_TH.data() + token * s.H, token, work.kept);
      DecodeToken(s, p, work, token, out + token * s.d);
    }
  });
  return {.reconstruction = reconstruction, .activations = ToActivations(s, work.kept)};
}

template <typename T>
void DecodeAndCompare(const StepSizes& s, const LorsaParameters& p, const Batch& batch,
                      const StepOptions& options, Workspace<T>& work, StepResult& result) {
  const int64_t blocks = TokenBlocks(s);
  const bool* mask = batch.mask.data_ptr<bool>();
  std::vector<int32_t> dead;
  if (options.aux) dead = TrueIndices(options.aux->dead);
  RunTasks(blocks, [&](int64_t task, int thread) {
    const SelectionScratch scratch = ScratchFor(work.threads[thread]);
    const float* norms = work.w_o_norms.data();
    Selector selector(work.config, work.loops.plain, norms, options.top_k, nullptr, scratch);
    Selector aux_selector(work.config, work.loops.plain, norms, work.aux_kept.capacity, &dead,
                          scratch);
    Comparison<T> comparison(s, p, batch, options, work, thread);
    float* b_d_sum = work.b_d_parts.data() + task * s.dp;
    std::memset(b_d_sum, 0, s.dp * sizeof(float));
    const int64_t end = std::min(s.T, (task + 1) * kTokenBlock);
    for (int64_t token = task * kTokenBlock; token < end; ++token) {
      work.kept.counts.data()[token] = 0;
      if (options.aux) work.aux_kept.counts.data()[token] = 0;
      if (!mask[token]) continue;
      const float* z = work.z_TH.data() + token * s.H;
      Keep(selector, z, token, work.kept);
      comparison.Main(token, b_d_sum);
      if (!options.aux) continue;
      Keep(aux_selector, z, token, work.aux_kept);
      comparison.Aux(token);
    }
  });
  SumTargets(s, mask, work.kept, work.losses_T.data(),
             options.aux ? work.aux_losses_T.data() : nullptr, options.loss_targets, result);
  if (p.b_d.defined()) {
    SumRows(work.b_d_parts.data(), blocks, s.dp, s.d, result.gradients.b_d.data_ptr<float>());
  }
}

template <typename T>
void DecoderGradients(const StepSizes& s, Workspace<T>& work, StepResult& result) {
  const bool has_aux = work.aux_kept.capacity > 0;
  IndexByHead(s, work.kept, work.kept_tokens);
  if (has_aux) IndexByHead(s, work.aux_kept, work.aux_tokens);
  result.firings = at::empty({s.H}, at::kLong);
  int64_t* firings = result.firings.data_ptr<int64_t>();
  float* w_o = result.gradients.w_o.data_ptr<float>();
  RunTasks((s.H + kTokenBlock - 1) / kTokenBlock, [&](int64_t task, int) {
    const int64_t end = std::min(s.H, (task + 1) * kTokenBlock);
    for (int64_t i = task * kTokenBlock; i < end; ++i) {
      float* row = w_o + i * s.d;
      std::memset(row, 0, s.d * sizeof(float));
      AddOutputGradients(s, work, work.kept_tokens, i, work.output_gradient_Td, row);
      if (has_aux) {
        AddOutputGradients(s, work, work.aux_tokens, i, work.aux_output_gradient_Td, row);
      }
      firings[i] = work.kept_tokens.offsets[i + 1] - work.kept_tokens.offsets[i];
    }
  });
}

#define LORSA_INSTANTIATE(T)                                                                 \
  template ForwardResult Decode<T>(const StepSizes&, const LorsaParameters&, Workspace<T>&); \
  template void DecodeAndCompare<T>(const StepSizes&, const LorsaParameters&, const Batch&,  \
                                    const StepOptions&, Workspace<T>&, StepResult&);         \
  template void DecoderGradients<T>(const StepSizes&, Workspace<T>&, StepResult&);
LORSA_INSTANTIATE(float)
LORSA_INSTANTIATE(kernels::Bf16)
#undef LORSA_INSTANTIATE

}  // namespace lorsa::trainer
