// job_spec: specifications as people write them, in textproto and JSON, and their defaults. What
// resolves, resolves again to the same.
#include <google/protobuf/util/message_differencer.h>

#include "job_spec/resolve.h"
#include "job_spec/spec_text.h"
#include "tests/fuzz/fuzz.h"

using namespace lorsa;  // NOLINT

namespace {

v1::ActivationSet Set() {
  v1::ActivationSet set;
  set.set_name("activationSets/demo");
  set.set_d_model(576);
  set.set_context(256);
  set.set_sequences(1562);
  set.set_held_out_sequences(128);
  set.set_has_attention_weights(true);
  v1::AttentionGeometry& attention = *set.mutable_attention();
  attention.set_n_heads(9);
  attention.set_n_kv_heads(3);
  attention.set_d_head(64);
  attention.set_attn_scale(8);
  attention.mutable_rope()->set_base(100000);
  attention.mutable_rope()->set_rotary_dim(64);
  return set;
}

void FuzzSpec(absl::string_view text, bool json) {
  const auto spec = ParseSpec({.source = "input", .text = std::string(text), .json = json});
  if (!spec.ok()) return FUZZ_CHECK(absl::IsInvalidArgument(spec.status()));
  static const v1::ActivationSet set = Set();
  const TrainingMachine machine{.cores = 2, .has_bf16 = true};
  const ResolvedSpec resolved = ResolveTrainingSpec(*spec, set, machine);
  for (const FieldViolation& violation : resolved.violations) {
    FUZZ_CHECK(!violation.field.empty() && !violation.description.empty());
  }
  if (!resolved.ok()) return;
  const ResolvedSpec again = ResolveTrainingSpec(resolved.spec, set, machine);
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(google::protobuf::util::MessageDifferencer::Equals(again.spec, resolved.spec));
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzSpec(fuzz::AsText(data, size), /*json=*/false);
  FuzzSpec(fuzz::AsText(data, size), /*json=*/true);
  return 0;
}
