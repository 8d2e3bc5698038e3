#include "job_spec/describe_set.h"

#include <google/protobuf/util/time_util.h>

#include "absl/strings/str_cat.h"

namespace lorsa {
namespace {

v1::ElementType ToMessage(store::ElementType type) {
  switch (type) {
    case store::ElementType::kBFloat16:
      return v1::ELEMENT_TYPE_BF16;
    case store::ElementType::kFloat16:
      return v1::ELEMENT_TYPE_FP16;
    case store::ElementType::kFloat32:
      return v1::ELEMENT_TYPE_FP32;
  }
  return v1::ELEMENT_TYPE_UNSPECIFIED;
}

v1::AttentionGeometry ToMessage(const store::AttentionGeometry& attention) {
  v1::AttentionGeometry message;
  message.set_n_heads(static_cast<int32_t>(attention.n_heads));
  message.set_n_kv_heads(static_cast<int32_t>(attention.n_kv_heads));
  message.set_d_head(static_cast<int32_t>(attention.d_head));
  message.set_attn_scale(attention.attn_scale);
  if (attention.rope.has_value()) *message.mutable_rope() = DescribeRope(*attention.rope);
  if (attention.qk_norm.has_value()) {
    message.mutable_qk_norm()->set_epsilon(attention.qk_norm->epsilon);
  }
  return message;
}

}  // namespace

v1::Rope DescribeRope(const store::Rope& rope) {
  v1::Rope message;
  message.set_base(rope.base);
  message.set_rotary_dim(static_cast<uint32_t>(rope.rotary_dim));
  message.set_adjacent_pairs(rope.adjacent_pairs);
  if (rope.ntk_by_parts.has_value()) {
    v1::NtkByParts& ntk = *message.mutable_ntk_by_parts();
    ntk.set_factor(rope.ntk_by_parts->factor);
    ntk.set_low_freq_factor(rope.ntk_by_parts->low_freq_factor);
    ntk.set_high_freq_factor(rope.ntk_by_parts->high_freq_factor);
    ntk.set_original_context(static_cast<uint32_t>(rope.ntk_by_parts->original_context));
  }
  return message;
}

v1::OutlierTargets DescribeOutliers(const store::OutlierTargets& outliers) {
  v1::OutlierTargets message;
  message.set_count(outliers.count);
  for (const store::TargetNorm& target : outliers.largest) {
    v1::OutlierTarget& described = *message.add_largest();
    described.set_sequence(target.sequence);
    described.set_position(static_cast<int32_t>(target.position));
    described.set_norm(target.norm);
  }
  return message;
}

v1::ActivationSet DescribeSet(const store::Manifest& manifest, absl::string_view id) {
  v1::ActivationSet set;
  set.set_name(absl::StrCat("activationSets/", id));
  set.set_model(manifest.model);
  set.set_model_revision(manifest.model_revision);
  set.set_layer(static_cast<int32_t>(manifest.layer));
  set.set_hook_convention(manifest.hook_convention);
  if (manifest.attention.has_value()) *set.mutable_attention() = ToMessage(*manifest.attention);
  set.set_d_model(static_cast<int32_t>(manifest.d_model));
  set.set_context(static_cast<int32_t>(manifest.context));
  set.set_element_type(ToMessage(manifest.element_type));
  set.set_sequences(manifest.sequences);
  set.set_held_out_sequences(manifest.held_out_sequences());
  set.set_unmasked_tokens(manifest.unmasked_tokens);
  set.set_mean_input_norm(manifest.mean_input_norm);
  set.set_mean_output_norm(manifest.mean_output_norm);
  int64_t size_bytes = 0;
  for (const store::ShardRecord& shard : manifest.shards) size_bytes += shard.bytes;
  set.set_size_bytes(size_bytes);
  set.set_shards(static_cast<int32_t>(manifest.shards.size()));
  set.set_has_attention_weights(manifest.attention_weights.has_value());
  set.set_producer(manifest.producer);
  // A date that a foreign producer wrote in another form is left out.
  google::protobuf::util::TimeUtil::FromString(manifest.created, set.mutable_produce_time());
  return set;
}

}  // namespace lorsa
