#include "job_spec/initial_weights.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "job_spec/fixed_fields.h"

namespace lorsa {
namespace {

constexpr absl::string_view kFixed[] = {"expansion_factor", "n_ov_heads", "n_qk_heads", "d_qk",
                                        "decoder_bias",     "attn_scale", "rope",       "qk_norm"};

std::vector<FieldViolation> FixedViolations(const v1::TrainingSpec& spec,
                                            const InitialWeights& weights) {
  std::vector<std::string> changed = ChangedFields(weights.lorsa, spec, kFixed);
  const bool has_position = weights.lorsa.has_rope() || weights.lorsa.has_qk_norm();
  if (spec.no_position_embedding() && has_position) changed.push_back("no_position_embedding");
  std::vector<FieldViolation> violations;
  for (const std::string& field : changed) {
    violations.push_back({field, "is fixed by the weights of initial_checkpoint; leave it out"});
  }
  return violations;
}

std::vector<FieldViolation> SetViolations(const InitialWeights& weights,
                                          const v1::ActivationSet& set) {
  std::vector<FieldViolation> violations;
  if (weights.d_model != set.d_model()) {
    violations.push_back({"initial_checkpoint",
                          absl::StrCat("is of d_model ", weights.d_model, ", but the set's is ",
                                       set.d_model(), "; give one of the set's layer")});
  }
  if (weights.hook_convention != set.hook_convention()) {
    violations.push_back({"initial_checkpoint",
                          absl::StrCat("reads ", weights.hook_convention, ", but the set holds ",
                                       set.hook_convention(),
                                       "; convert it (lorsa-convert … --norm) or harvest a set "
                                       "of its convention")});
  }
  return violations;
}

// `spec` with all that the weights say, but for what it is free to say otherwise.
v1::TrainingSpec WithWeights(const v1::TrainingSpec& spec, const InitialWeights& weights) {
  v1::TrainingSpec free = spec;
  for (const absl::string_view field : kFixed) {
    free.GetReflection()->ClearField(
        &free, v1::TrainingSpec::descriptor()->FindFieldByName(std::string(field)));
  }
  v1::TrainingSpec merged = weights.lorsa;
  merged.MergeFrom(free);
  merged.clear_expansion_factor();  // follows from n_ov_heads
  return merged;
}

}  // namespace

ResolvedSpec ResolveFromWeights(const v1::TrainingSpec& spec, const InitialWeights& weights,
                                const v1::ActivationSet& set, const TrainingMachine& machine) {
  const std::vector<FieldViolation> fixed = FixedViolations(spec, weights);
  ResolvedSpec resolved{.spec = WithWeights(spec, weights),
                        .violations = SetViolations(weights, set)};
  // Of another set's sizes all else would be wrong too, which tells nothing.
  if (resolved.ok()) {
    if (!fixed.empty()) resolved.spec.clear_no_position_embedding();
    resolved = ResolveTrainingSpec(resolved.spec, set, machine);
  }
  resolved.violations.insert(resolved.violations.begin(), fixed.begin(), fixed.end());
  return resolved;
}

}  // namespace lorsa
