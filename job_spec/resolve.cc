#include "job_spec/resolve.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace lorsa {
namespace {

constexpr uint64_t kMaxOvHeads = 1 << 20;
constexpr uint64_t kMaxQkHeads = 1 << 16;
constexpr uint64_t kMaxDQk = 1024;
constexpr uint64_t kMaxTokens = 10'000'000'000'000;
// Elements of the largest weight: 64 GiB in fp32.
constexpr uint64_t kMaxElements = uint64_t{1} << 34;
constexpr uint64_t kMaxSequencesPerStep = 4096;
constexpr uint64_t kMaxRefitTokens = 1'000'000'000;
constexpr uint64_t kMaxRefitHeads = 16'384;
// Where the refit's two matrices of heads² doubles take at most 1 GiB.
constexpr uint64_t kRefitHeadsByDefault = 8'192;
constexpr uint64_t kRefitTokensByDefault = 262'144;
constexpr uint64_t kMaxRanks = 64;

// Fills one specification, collecting what is wrong on the way.
class Resolver {
 public:
  Resolver(const v1::TrainingSpec& spec, const v1::ActivationSet& set,
           const TrainingMachine& machine)
      : set_(set), machine_(machine) {
    result_.spec = spec;
  }

  ResolvedSpec Run() {
    ResolveSet();
    ResolveHeads();
    CheckSize();
    ResolvePositionEmbedding();
    ResolveInitialization();
    ResolveRun();
    ResolveRanks();
    ResolveOptimizer();
    ResolveIntervals();
    ResolveDeadHeads();
    ResolvePublished();
    ResolveSchedules();
    return std::move(result_);
  }

 private:
  v1::TrainingSpec& spec() { return result_.spec; }

  void Violation(absl::string_view field, absl::string_view description) {
    result_.violations.push_back({std::string(field), std::string(description)});
  }

  void CheckRange(absl::string_view field, uint64_t value, uint64_t low, uint64_t high) {
    if (value < low || value > high) {
      Violation(field, absl::StrCat("is ", value, "; give ", low, " to ", high));
    }
  }

  // `low` itself is refused when `open_low`; so are NaN and infinity.
  void CheckReal(absl::string_view field, double value, double low, double high,
                 bool open_low = false) {
    if (!(std::isfinite(value) && (open_low ? value > low : value >= low) && value <= high)) {
      Violation(field, absl::StrCat("is ", value, "; give a number ", open_low ? "above " : "from ",
                                    low, " up to ", high));
    }
  }

  void ResolveSet();
  void ResolveHeads();
  void CheckSize();
  void ResolvePositionEmbedding();
  void CheckRope();
  void ResolveInitialization();
  void CheckLayerGeometry();
  void ResolveRun();
  void ResolveRanks();
  void ResolveOptimizer();
  void ResolveIntervals();
  void ResolveDeadHeads();
  void ResolvePublished();
  void ResolveSchedules();

  const v1::ActivationSet& set_;
  const TrainingMachine& machine_;
  ResolvedSpec result_;
};

void Resolver::ResolveSet() {
  if (spec().activation_set_sha256().empty()) {
    spec().set_activation_set_sha256(set_.manifest_sha256());
  } else if (spec().activation_set_sha256() != set_.manifest_sha256()) {
    Violation("activation_set_sha256",
              absl::StrCat("is not that of the activation set, which is ", set_.manifest_sha256(),
                           "; register the contents that are meant under another id, or leave "
                           "the field out"));
  }
}

void Resolver::ResolveHeads() {
  const uint64_t d_model = set_.d_model();
  if (spec().has_expansion_factor()) {
    CheckRange("expansion_factor", spec().expansion_factor(), 1, 1024);
  }
  if (!spec().has_n_ov_heads()) {
    if (!spec().has_expansion_factor()) spec().set_expansion_factor(8);
    spec().set_n_ov_heads(static_cast<uint32_t>(
        std::min<uint64_t>(spec().expansion_factor() * d_model, kMaxOvHeads + 1)));
  } else if (spec().has_expansion_factor() &&
             spec().n_ov_heads() != spec().expansion_factor() * d_model) {
    Violation("expansion_factor", absl::StrCat("times d_model ", d_model, " is not n_ov_heads ",
                                               spec().n_ov_heads(), "; give one of the two"));
  } else if (spec().n_ov_heads() % d_model == 0) {
    spec().set_expansion_factor(static_cast<uint32_t>(spec().n_ov_heads() / d_model));
  }
  CheckRange("n_ov_heads", spec().n_ov_heads(), 1, kMaxOvHeads);

  if (!spec().has_n_qk_heads()) {
    if (set_.has_attention()) {
      spec().set_n_qk_heads(4 * set_.attention().n_heads());
    } else {
      Violation("n_qk_heads", "is needed, because the set does not describe its layer");
    }
  }
  if (!spec().has_d_qk()) {
    if (set_.has_attention()) {
      spec().set_d_qk(set_.attention().d_head());
    } else {
      Violation("d_qk", "is needed, because the set does not describe its layer");
    }
  }
  if (spec().has_n_qk_heads()) {
    CheckRange("n_qk_heads", spec().n_qk_heads(), 1, kMaxQkHeads);
    if (spec().n_qk_heads() > 0 && spec().n_ov_heads() % spec().n_qk_heads() != 0) {
      Violation("n_ov_heads", absl::StrCat("is ", spec().n_ov_heads(), ", not a multiple of the ",
                                           spec().n_qk_heads(), " QK heads; change either"));
    }
  }
  if (spec().has_d_qk()) CheckRange("d_qk", spec().d_qk(), 1, kMaxDQk);
  if (!spec().has_top_k()) spec().set_top_k(64);
  if (spec().top_k() < 1 || spec().top_k() > spec().n_ov_heads()) {
    Violation("top_k", absl::StrCat("is ", spec().top_k(), "; give 1 to the number of OV heads, ",
                                    spec().n_ov_heads()));
  }
  if (spec().selection() == v1::SELECTION_UNSPECIFIED) spec().set_selection(v1::SELECTION_RELU);
  if (!v1::Selection_IsValid(spec().selection())) {
    Violation("selection", "is unknown; give SELECTION_RELU or SELECTION_SIGNED");
  }
  if (!spec().has_select_by_decoder_norm()) spec().set_select_by_decoder_norm(true);
  if (!spec().has_decoder_bias()) spec().set_decoder_bias(true);
}

void Resolver::CheckSize() {
  const uint64_t d_model = set_.d_model();
  if (d_model * spec().n_ov_heads() > kMaxElements) {
    Violation("n_ov_heads",
              absl::StrCat("times d_model is more than ", kMaxElements, " weights; lower it"));
  }
  if (d_model * spec().n_qk_heads() * spec().d_qk() > kMaxElements) {
    Violation("n_qk_heads", absl::StrCat("times d_qk times d_model is more than ", kMaxElements,
                                         " weights; lower either"));
  }
}

void Resolver::ResolvePositionEmbedding() {
  if (!spec().has_no_position_embedding()) spec().set_no_position_embedding(false);
  if (spec().no_position_embedding()) {
    if (spec().has_rope()) Violation("rope", "contradicts no_position_embedding; give one");
    if (spec().has_qk_norm()) Violation("qk_norm", "contradicts no_position_embedding; give one");
  } else if (set_.has_attention() && spec().initial_checkpoint().empty()) {
    if (!spec().has_rope() && set_.attention().has_rope()) {
      *spec().mutable_rope() = set_.attention().rope();
    }
    if (!spec().has_qk_norm() && set_.attention().has_qk_norm()) {
      *spec().mutable_qk_norm() = set_.attention().qk_norm();
    }
  }
  if (spec().has_rope()) CheckRope();
  if (spec().has_qk_norm()) {
    if (spec().qk_norm().epsilon() == 0) spec().mutable_qk_norm()->set_epsilon(1e-6);
    CheckReal("qk_norm.epsilon", spec().qk_norm().epsilon(), 0, 1, /*open_low=*/true);
  }
  if (!spec().has_attn_scale()) {
    if (set_.has_attention() && spec().d_qk() == set_.attention().d_head()) {
      spec().set_attn_scale(set_.attention().attn_scale());
    } else if (spec().d_qk() > 0) {
      spec().set_attn_scale(std::sqrt(static_cast<double>(spec().d_qk())));
    } else {
      return;  // a violation of d_qk, told already
    }
  }
  CheckReal("attn_scale", spec().attn_scale(), 1e-6, 1e6);
}

void Resolver::CheckRope() {
  const v1::Rope& rope = spec().rope();
  CheckReal("rope.base", rope.base(), 1, 1e12, /*open_low=*/true);
  // Without d_qk, a violation told already, only its own bound is left.
  const uint64_t d_qk = spec().d_qk() > 0 ? spec().d_qk() : kMaxDQk;
  if (rope.rotary_dim() < 2 || rope.rotary_dim() % 2 != 0 || rope.rotary_dim() > d_qk) {
    Violation("rope.rotary_dim", absl::StrCat("is ", rope.rotary_dim(),
                                              "; give an even number from 2 to d_qk, ", d_qk));
  }
  if (rope.has_ntk_by_parts()) {
    const v1::NtkByParts& ntk = rope.ntk_by_parts();
    CheckReal("rope.ntk_by_parts.factor", ntk.factor(), 0, 1e6, true);
    CheckReal("rope.ntk_by_parts.low_freq_factor", ntk.low_freq_factor(), 0, 1e6, true);
    CheckReal("rope.ntk_by_parts.high_freq_factor", ntk.high_freq_factor(), ntk.low_freq_factor(),
              1e6, true);
    CheckRange("rope.ntk_by_parts.original_context", ntk.original_context(), 1, 1u << 30);
  }
}

void Resolver::ResolveInitialization() {
  const bool knows_layer = set_.has_attention() && set_.has_attention_weights();
  const bool has_checkpoint = !spec().initial_checkpoint().empty();
  if (spec().initialization() == v1::INITIALIZATION_UNSPECIFIED) {
    spec().set_initialization(has_checkpoint ? v1::INITIALIZATION_CHECKPOINT
                              : knows_layer  ? v1::INITIALIZATION_DATA_SAMPLED
                                             : v1::INITIALIZATION_RANDOM);
  }
  if (!v1::Initialization_IsValid(spec().initialization())) {
    Violation("initialization", "is unknown; see training_spec.proto for the values");
  } else if (spec().initialization() == v1::INITIALIZATION_CHECKPOINT) {
    if (!has_checkpoint) {
      Violation("initial_checkpoint", "is needed by INITIALIZATION_CHECKPOINT; give it");
    }
  } else if (has_checkpoint) {
    Violation("initialization", "contradicts initial_checkpoint; leave one of them out");
  } else if (spec().initialization() != v1::INITIALIZATION_RANDOM) {
    if (knows_layer) {
      CheckLayerGeometry();
    } else {
      Violation("initialization",
                "needs the layer's weights, which the set does not have; give "
                "INITIALIZATION_RANDOM or register a set with attention.safetensors");
    }
  }
}

// Weights of the layer fit the Lorsa only head by head.
void Resolver::CheckLayerGeometry() {
  const v1::AttentionGeometry& layer = set_.attention();
  if (layer.n_heads() > 0 && spec().n_qk_heads() % layer.n_heads() != 0) {
    Violation("n_qk_heads",
              absl::StrCat("is ", spec().n_qk_heads(), ", not a multiple of the ", layer.n_heads(),
                           " heads of the layer that it starts from; change it or "
                           "give initialization: INITIALIZATION_RANDOM"));
  }
  if (spec().d_qk() != layer.d_head()) {
    Violation("d_qk", absl::StrCat("is ", spec().d_qk(), ", but the layer that it starts from has ",
                                   layer.d_head(),
                                   "; leave it out or give initialization: INITIALIZATION_RANDOM"));
  }
}

void Resolver::ResolveRun() {
  const uint64_t training = set_.sequences() - set_.held_out_sequences();
  if (training == 0) {
    Violation("activation_set",
              absl::StrCat("has ", set_.sequences(),
                           " sequences, which are all held out for evaluation; harvest more"));
  }
  if (!spec().has_sequences_per_step()) spec().set_sequences_per_step(8);
  CheckRange("sequences_per_step", spec().sequences_per_step(), 1, kMaxSequencesPerStep);
  if (!spec().has_tokens()) spec().set_tokens(training * set_.context());
  if (training > 0) CheckRange("tokens", spec().tokens(), 1, kMaxTokens);
  const uint64_t per_step = uint64_t{spec().sequences_per_step()} * set_.context();
  if (per_step > 0 && spec().tokens() <= kMaxTokens) {
    const uint64_t steps = (spec().tokens() + per_step - 1) / per_step;
    spec().set_tokens(std::min(steps, kMaxTokens / per_step) * per_step);
  }
  if (!spec().has_seed()) spec().set_seed(0);
  if (spec().precision() == v1::PRECISION_UNSPECIFIED) {
    spec().set_precision(machine_.has_bf16 ? v1::PRECISION_BF16 : v1::PRECISION_FP32);
  }
  if (!v1::Precision_IsValid(spec().precision())) {
    Violation("precision", "is unknown; see training_spec.proto for the values");
  }
}

void Resolver::ResolveRanks() {
  if (!spec().has_ranks()) spec().set_ranks(1);
  CheckRange("ranks", spec().ranks(), 1, kMaxRanks);
  if (spec().ranks() <= kMaxRanks && spec().ranks() > spec().sequences_per_step()) {
    Violation("ranks",
              absl::StrCat("is ", spec().ranks(), ", more than the ", spec().sequences_per_step(),
                           " sequences_per_step that they share; change either"));
  }
  if (!spec().has_threads()) {
    const int ranks = static_cast<int>(std::clamp<uint64_t>(spec().ranks(), 1, kMaxRanks));
    spec().set_threads(static_cast<uint32_t>(std::max(machine_.cores / ranks, 1)));
  }
  CheckRange("threads", spec().threads(), 1, 1024);
}

void Resolver::ResolveOptimizer() {
  v1::TrainingSpec& s = spec();
  if (!s.has_learning_rate()) s.set_learning_rate(3e-3);
  CheckReal("learning_rate", s.learning_rate(), 0, 1, /*open_low=*/true);
  if (!s.has_qk_learning_rate_factor()) {
    s.set_qk_learning_rate_factor(s.initialization() == v1::INITIALIZATION_RANDOM ? 1 : 0.05);
  }
  CheckReal("qk_learning_rate_factor", s.qk_learning_rate_factor(), 0, 100);
  if (!s.has_warmup_fraction()) s.set_warmup_fraction(0.05);
  CheckReal("warmup_fraction", s.warmup_fraction(), 0, 1);
  if (!s.has_decay_fraction()) s.set_decay_fraction(0.2);
  CheckReal("decay_fraction", s.decay_fraction(), 0, 1);
  if (s.warmup_fraction() + s.decay_fraction() > 1) {
    Violation("decay_fraction", "and warmup_fraction together are more than 1; lower either");
  }
  if (!s.has_final_learning_rate_factor()) s.set_final_learning_rate_factor(1.0 / 32);
  CheckReal("final_learning_rate_factor", s.final_learning_rate_factor(), 0, 1);
  const double below_one = std::nextafter(1.0, 0.0);
  if (!s.has_adam_beta1()) s.set_adam_beta1(0.9);
  CheckReal("adam_beta1", s.adam_beta1(), 0, below_one);
  if (!s.has_adam_beta2()) s.set_adam_beta2(0.999);
  CheckReal("adam_beta2", s.adam_beta2(), 0, below_one);
  if (!s.has_adam_epsilon()) s.set_adam_epsilon(1e-8);
  CheckReal("adam_epsilon", s.adam_epsilon(), 0, 1, /*open_low=*/true);
  if (!s.has_max_gradient_norm()) s.set_max_gradient_norm(0);
  CheckReal("max_gradient_norm", s.max_gradient_norm(), 0, 1e30);
}

void Resolver::ResolveIntervals() {
  const uint64_t per_step = uint64_t{spec().sequences_per_step()} * set_.context();
  const uint64_t tenth = std::max(per_step, spec().tokens() / 10);
  if (!spec().has_evaluation_interval_tokens()) spec().set_evaluation_interval_tokens(tenth);
  if (!spec().has_checkpoint_interval_tokens()) spec().set_checkpoint_interval_tokens(tenth);
  CheckRange("evaluation_interval_tokens", spec().evaluation_interval_tokens(), per_step,
             kMaxTokens);
  CheckRange("checkpoint_interval_tokens", spec().checkpoint_interval_tokens(), per_step,
             kMaxTokens);
  if (!spec().has_keep_checkpoints()) spec().set_keep_checkpoints(3);
  CheckRange("keep_checkpoints", spec().keep_checkpoints(), 1, 10'000);
  if (!spec().has_keep_every_tokens()) spec().set_keep_every_tokens(0);
  CheckRange("keep_every_tokens", spec().keep_every_tokens(), 0, kMaxTokens);
  if (!spec().has_max_rollbacks()) spec().set_max_rollbacks(3);
  CheckRange("max_rollbacks", spec().max_rollbacks(), 0, 100);
}

void Resolver::ResolveDeadHeads() {
  v1::TrainingSpec& s = spec();
  if (!s.has_dead_after_fraction()) s.set_dead_after_fraction(0.04);
  CheckReal("dead_after_fraction", s.dead_after_fraction(), 0, 1, /*open_low=*/true);
  if (!s.has_aux_coefficient()) s.set_aux_coefficient(0);
  CheckReal("aux_coefficient", s.aux_coefficient(), 0, 1000);
  if (!s.has_aux_top_k()) {
    s.set_aux_top_k(std::max(1u, std::min<uint32_t>(set_.d_model() / 2, s.n_ov_heads())));
  }
  CheckRange("aux_top_k", s.aux_top_k(), 1, std::max(1u, s.n_ov_heads()));
  if (!s.has_resample_interval_fraction()) s.set_resample_interval_fraction(0.05);
  CheckReal("resample_interval_fraction", s.resample_interval_fraction(), 0, 1);
  if (!s.has_resample_until_fraction()) s.set_resample_until_fraction(0.9);
  CheckReal("resample_until_fraction", s.resample_until_fraction(), 0, 1);
  if (!s.has_resample_firing_factor()) s.set_resample_firing_factor(0.3);
  CheckReal("resample_firing_factor", s.resample_firing_factor(), 0, 100, /*open_low=*/true);
}

void Resolver::ResolvePublished() {
  v1::TrainingSpec& s = spec();
  if (!s.has_ema_fraction()) s.set_ema_fraction(0.03);
  CheckReal("ema_fraction", s.ema_fraction(), 0, 1);
  if (!s.has_refit_tokens()) {
    s.set_refit_tokens(s.n_ov_heads() <= kRefitHeadsByDefault ? kRefitTokensByDefault : 0);
  }
  CheckRange("refit_tokens", s.refit_tokens(), 0, kMaxRefitTokens);
  if (s.refit_tokens() > 0 && s.n_ov_heads() > kMaxRefitHeads) {
    Violation("refit_tokens", absl::StrCat("needs a matrix of n_ov_heads² numbers, at most ",
                                           kMaxRefitHeads, " heads; set it to 0"));
  }
  if (!s.has_refit_ridge()) s.set_refit_ridge(0.01);
  CheckReal("refit_ridge", s.refit_ridge(), 0, 1e6, /*open_low=*/true);
}

void Resolver::ResolveSchedules() {
  v1::TrainingSpec& s = spec();
  if (s.learning_rate_schedule() == v1::LEARNING_RATE_SCHEDULE_UNSPECIFIED) {
    s.set_learning_rate_schedule(v1::LEARNING_RATE_SCHEDULE_WARMUP_STABLE_DECAY);
  }
  if (!v1::LearningRateSchedule_IsValid(s.learning_rate_schedule())) {
    Violation("learning_rate_schedule", "is unknown; see training_spec.proto for the values");
  }
  if (!s.has_w_v_learning_rate_factor()) s.set_w_v_learning_rate_factor(1);
  CheckReal("w_v_learning_rate_factor", s.w_v_learning_rate_factor(), 0, 100);
  if (!s.has_w_o_learning_rate_factor()) s.set_w_o_learning_rate_factor(1);
  CheckReal("w_o_learning_rate_factor", s.w_o_learning_rate_factor(), 0, 100);
  if (!s.has_bias_learning_rate_factor()) s.set_bias_learning_rate_factor(1);
  CheckReal("bias_learning_rate_factor", s.bias_learning_rate_factor(), 0, 100);
  if (!s.has_top_k_warmup_fraction()) s.set_top_k_warmup_fraction(0);
  CheckReal("top_k_warmup_fraction", s.top_k_warmup_fraction(), 0, 1);
  if (!s.has_initial_top_k()) {
    s.set_initial_top_k(static_cast<uint32_t>(
        std::min<uint64_t>(uint64_t{4} * s.top_k(), std::max(1u, s.n_ov_heads()))));
  }
  CheckRange("initial_top_k", s.initial_top_k(), 1, std::max(1u, s.n_ov_heads()));
  if (s.top_k_warmup() == v1::TOP_K_WARMUP_UNSPECIFIED) s.set_top_k_warmup(v1::TOP_K_WARMUP_LINEAR);
  if (!v1::TopKWarmup_IsValid(s.top_k_warmup())) {
    Violation("top_k_warmup", "is unknown; see training_spec.proto for the values");
  }
  if (!s.has_decoder_norm()) s.set_decoder_norm(0);
  CheckReal("decoder_norm", s.decoder_norm(), 0, 1e6);
}

}  // namespace

ResolvedSpec ResolveTrainingSpec(const v1::TrainingSpec& spec, const v1::ActivationSet& set,
                                 const TrainingMachine& machine) {
  return Resolver(spec, set, machine).Run();
}

}  // namespace lorsa
