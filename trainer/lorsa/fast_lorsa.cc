#include "trainer/lorsa/fast_lorsa.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>
#include <vector>

#include "trainer/kernels/tasks.h"
#include "trainer/lorsa/fast_attention.h"
#include "trainer/lorsa/fast_decode.h"
#include "trainer/lorsa/fast_projection.h"
#include "trainer/lorsa/fast_workspace.h"
#include "trainer/lorsa/reference_lorsa.h"

namespace lorsa::trainer {
namespace {

// Tokens of each sequence up to its last target: the z of those after it are never used.
std::vector<int64_t> UsedQueries(const at::Tensor& mask_BS) {
  const int64_t B = mask_BS.size(0), S = mask_BS.size(1);
  const bool* mask = mask_BS.data_ptr<bool>();
  std::vector<int64_t> used(B, 0);
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t t = 0; t < S; ++t) {
      if (mask[b * S + t]) used[b] = t + 1;
    }
  }
  return used;
}

template <typename T>
class FastLorsa final : public LorsaKernel {
 public:
  FastLorsa(LorsaConfig config, kernels::Level level, StageObserver observer)
      : config_(std::move(config)), observer_(std::move(observer)), work_(config_, level) {}

  const LorsaConfig& config() const override { return config_; }

  StepResult ForwardBackward(const LorsaParameters& parameters, const Batch& batch,
                             const StepOptions& options) override {
    at::NoGradGuard no_grad;
    const Batch contiguous{batch.x.contiguous(), batch.y.contiguous(), batch.mask.contiguous()};
    const StepSizes sizes(config_, batch.x.size(0), batch.x.size(1));
    StepResult out;
    out.gradients = GradientMemory();
    work_.Reserve(sizes,
                  {.gradients = true,
                   .top_k = options.top_k,
                   .aux_top_k = options.aux ? options.aux->top_k : 0},
                  kernels::TaskThreads());
    ComputeZ(sizes, parameters, contiguous.x, UsedQueries(contiguous.mask), /*gradients=*/true);
    DecodeAndCompare(sizes, parameters, contiguous, options, work_, out);
    EndStage("decode");
    DecoderGradients(sizes, work_, out);
    EndStage("decoder_gradient");
    AttendBackward(sizes, parameters, work_);
    EndStage("attention_gradient");
    ProjectionGradients(sizes, work_, out.gradients);
    EndStage("projection_gradient");
    return out;
  }

  ForwardResult Forward(const LorsaParameters& parameters, const at::Tensor& x) override {
    at::NoGradGuard no_grad;
    const StepSizes sizes(config_, x.size(0), x.size(1));
    work_.Reserve(sizes, {.top_k = config_.top_k}, kernels::TaskThreads());
    ComputeZ(sizes, parameters, x.contiguous(), std::vector<int64_t>(sizes.B, sizes.S),
             /*gradients=*/false);
    ForwardResult out = Decode(sizes, parameters, work_);
    EndStage("decode");
    return out;
  }

  // Whole patterns are what this class exists to avoid.
  Intermediates Inspect(const LorsaParameters& parameters, const at::Tensor& x) override {
    return ReferenceLorsa(config_).Inspect(parameters, x);
  }

 private:
  void ComputeZ(const StepSizes& sizes, const LorsaParameters& parameters, const at::Tensor& x,
                const std::vector<int64_t>& queries, bool gradients) {
    if (config_.rope && (!work_.rope.cos.defined() || work_.rope.cos.size(0) < sizes.S)) {
      work_.rope = MakeRopeTables(*config_.rope, sizes.S, at::kCPU);
    }
    PackWeights(sizes, parameters, work_);
    PackInput(sizes, x, gradients, work_);
    EndStage("pack");
    ProjectQueriesAndKeys(sizes, parameters, work_);
    EndStage("project_queries_keys");
    ProjectValues(sizes, parameters, work_);
    EndStage("project_values");
    AttendForward(sizes, queries, work_);
    EndStage("attention");
  }

  // Fresh memory costs a page fault per 4 KiB, every step.
  LorsaParameters GradientMemory() {
    for (const ParameterSpec& spec : ParameterSpecs(config_)) {
      at::Tensor& tensor = gradients_.*spec.member;
      if (!tensor.defined() || tensor.use_count() > 1) tensor = at::empty(spec.shape, at::kFloat);
    }
    return gradients_;
  }

  void EndStage(const char* stage) const {
    if (observer_) observer_(stage);
  }

  const LorsaConfig config_;
  const StageObserver observer_;
  Workspace<T> work_;
  LorsaParameters gradients_;
};

}  // namespace

std::unique_ptr<LorsaKernel> MakeFastLorsa(LorsaConfig config, Precision precision,
                                           kernels::Level level, StageObserver observer) {
  if (precision == Precision::kBf16) {
    return std::make_unique<FastLorsa<kernels::Bf16>>(std::move(config), level,
                                                      std::move(observer));
  }
  return std::make_unique<FastLorsa<float>>(std::move(config), level, std::move(observer));
}

}  // namespace lorsa::trainer
