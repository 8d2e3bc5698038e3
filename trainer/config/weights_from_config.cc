#include "trainer/config/weights_from_config.h"

#include "job_spec/describe_set.h"

namespace lorsa::worker {
namespace {

uint32_t Unsigned(int64_t count) { return static_cast<uint32_t>(count); }

}  // namespace

InitialWeights WeightsFromConfig(const trainer::CheckpointConfig& config) {
  const trainer::LorsaConfig& lorsa = config.lorsa;
  InitialWeights weights{.d_model = lorsa.d_model, .hook_convention = config.hook_convention};
  v1::TrainingSpec& spec = weights.lorsa;
  if (lorsa.n_ov_heads % lorsa.d_model == 0) {
    spec.set_expansion_factor(Unsigned(lorsa.n_ov_heads / lorsa.d_model));
  }
  spec.set_n_ov_heads(Unsigned(lorsa.n_ov_heads));
  spec.set_n_qk_heads(Unsigned(lorsa.n_qk_heads));
  spec.set_d_qk(Unsigned(lorsa.d_qk));
  spec.set_top_k(Unsigned(lorsa.top_k));
  spec.set_selection(lorsa.selection == trainer::Selection::kSigned ? v1::SELECTION_SIGNED
                                                                    : v1::SELECTION_RELU);
  spec.set_select_by_decoder_norm(lorsa.select_by_decoder_norm);
  spec.set_decoder_bias(lorsa.decoder_bias);
  spec.set_attn_scale(lorsa.attn_scale);
  if (lorsa.rope.has_value()) *spec.mutable_rope() = DescribeRope(*lorsa.rope);
  if (lorsa.qk_norm.has_value()) spec.mutable_qk_norm()->set_epsilon(lorsa.qk_norm->epsilon);
  return weights;
}

}  // namespace lorsa::worker
