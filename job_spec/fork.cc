#include "job_spec/fork.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "job_spec/fixed_fields.h"

namespace lorsa {
namespace {

// What the weights are of, which sequences come in which order, and what numbers they are in: the
// checkpoint holds all of these, and the trainer goes on from it only with the same.
constexpr absl::string_view kFixed[] = {"activation_set", "expansion_factor",
                                        "n_ov_heads",     "n_qk_heads",
                                        "d_qk",           "top_k",
                                        "selection",      "select_by_decoder_norm",
                                        "decoder_bias",   "attn_scale",
                                        "rope",           "qk_norm",
                                        "initialization", "sequences_per_step",
                                        "seed",           "no_position_embedding",
                                        "precision",      "initial_checkpoint"};

}  // namespace

ResolvedSpec ForkTrainingSpec(const v1::TrainingSpec& ran, const v1::TrainingSpec& changes,
                              int64_t checkpoint_tokens, const v1::ActivationSet& set,
                              const TrainingMachine& machine) {
  std::vector<FieldViolation> violations;
  for (const std::string& field : ChangedFields(ran, changes, kFixed)) {
    violations.push_back({field,
                          "is fixed by the checkpoint; leave it out, or submit a new job that "
                          "starts from its weights (initial_checkpoint)"});
  }
  v1::TrainingSpec merged = ran;
  merged.MergeFrom(changes);
  if ((merged.ema_fraction() > 0) != (ran.ema_fraction() > 0)) {
    violations.push_back({"ema_fraction", ran.ema_fraction() > 0
                                              ? "cannot become 0: the checkpoint's weights are "
                                                "averaged ones"
                                              : "must stay 0: the checkpoint has no average"});
  }
  ResolvedSpec forked = ResolveTrainingSpec(merged, set, machine);
  if (forked.ok() && merged.tokens() <= static_cast<uint64_t>(checkpoint_tokens)) {
    violations.push_back(
        {"tokens", absl::StrCat("is ", merged.tokens(), ", and the checkpoint stands at ",
                                checkpoint_tokens, " already; give more")});
  }
  forked.violations.insert(forked.violations.begin(), violations.begin(), violations.end());
  return forked;
}

}  // namespace lorsa
