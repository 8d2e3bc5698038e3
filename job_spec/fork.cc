#include "job_spec/fork.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace lorsa {
namespace {

using google::protobuf::FieldDescriptor;

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
                                        "precision"};

bool IsFixed(const std::string& field) {
  return std::find(std::begin(kFixed), std::end(kFixed), field) != std::end(kFixed);
}

// Whether taking this one field over from `changes` makes `ran` another.
bool Changes(const v1::TrainingSpec& ran, const v1::TrainingSpec& changes,
             const FieldDescriptor& field) {
  v1::TrainingSpec only = changes;
  std::vector<const FieldDescriptor*> set;
  only.GetReflection()->ListFields(only, &set);
  for (const FieldDescriptor* other : set) {
    if (other != &field) only.GetReflection()->ClearField(&only, other);
  }
  v1::TrainingSpec merged = ran;
  merged.MergeFrom(only);
  return merged.SerializeAsString() != ran.SerializeAsString();
}

}  // namespace

ResolvedSpec ForkTrainingSpec(const v1::TrainingSpec& ran, const v1::TrainingSpec& changes,
                              int64_t checkpoint_tokens, const v1::ActivationSet& set,
                              const TrainingMachine& machine) {
  std::vector<FieldViolation> violations;
  std::vector<const FieldDescriptor*> fields;
  changes.GetReflection()->ListFields(changes, &fields);
  for (const FieldDescriptor* field : fields) {
    if (IsFixed(field->name()) && Changes(ran, changes, *field)) {
      violations.push_back({field->name(),
                            "is fixed by the checkpoint; leave it out, or submit a new job to "
                            "change it"});
    }
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
