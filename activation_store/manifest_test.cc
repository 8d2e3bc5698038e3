#include "activation_store/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lorsa::store {
namespace {

using nlohmann::json;
using testing::HasSubstr;

Manifest Example() {
  const std::string sha(64, 'a');
  Manifest manifest;
  manifest.model = "SmolLM2-135M-Instruct";
  manifest.model_revision = "Q4_1";
  manifest.layer = 12;
  manifest.attention = AttentionGeometry{
      .n_heads = 9,
      .n_kv_heads = 3,
      .d_head = 64,
      .attn_scale = 8,
      .rope = Rope{.base = 100000,
                   .rotary_dim = 64,
                   .ntk_by_parts = NtkByParts{.factor = 8, .original_context = 8192}},
      .qk_norm = QkNorm{.epsilon = 1e-6}};
  manifest.d_model = 576;
  manifest.context = 256;
  manifest.sequences = 1562;
  manifest.unmasked_tokens = 398310;
  manifest.mean_input_norm = 9.0400000000000009;
  manifest.mean_output_norm = 1.0 / 3;
  manifest.shards = {{{"shard-00000.h5", 302514176, sha}, 1000},
                     {{"shard-00001.h5", 302514176, sha}, 562}};
  manifest.checksums = {"checksums.h5", 14544, sha};
  manifest.attention_weights = FileRecord{"attention.safetensors", 3540000, sha};
  manifest.producer = "lorsa-harvest 0.1.0";
  manifest.created = "2026-11-30T12:00:00Z";
  return manifest;
}

TEST(ManifestTest, IsReadBackAsWritten) {
  const std::string text = FormatManifest(Example());
  const auto manifest = ParseManifest(text);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(FormatManifest(*manifest), text);
  EXPECT_EQ(manifest->attention->rope->ntk_by_parts->original_context, 8192);
  EXPECT_EQ(manifest->mean_output_norm, 1.0 / 3);
  EXPECT_EQ(manifest->shards[1].sequences, 562);
}

TEST(ManifestTest, OptionalPartsMayBeNull) {
  Manifest manifest = Example();
  manifest.attention.reset();
  manifest.attention_weights.reset();
  const auto read = ParseManifest(FormatManifest(manifest));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->attention.has_value());
  EXPECT_FALSE(read->attention_weights.has_value());
}

TEST(ManifestTest, HoldsOutTwoPercentButAtLeast128) {
  Manifest manifest;
  const auto held_out = [&](int64_t sequences) {
    manifest.sequences = sequences;
    return manifest.held_out_sequences();
  };
  EXPECT_EQ(held_out(5), 5);
  EXPECT_EQ(held_out(1000), 128);
  EXPECT_EQ(held_out(6400), 128);
  EXPECT_EQ(held_out(6401), 129);
  EXPECT_EQ(held_out(1000001), 20001);
  manifest.sequences = 1000;
  EXPECT_EQ(manifest.training_sequences(), 872);
}

// A change to one member of a good manifest, and what the refusal must name.
TEST(ManifestTest, TheInputMayBeBeforeTheNormsGain) {
  Manifest manifest = Example();
  manifest.hook_convention = "transformer_lens.ln1.hook_normalized";
  const auto read = ParseManifest(FormatManifest(manifest));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->hook_convention, manifest.hook_convention);
}

struct BadMember {
  const char* pointer;  // JSON pointer
  const char* value;    // JSON, or "" to leave the member out
  const char* named;
};

class BadManifestTest : public testing::TestWithParam<BadMember> {};

TEST_P(BadManifestTest, IsRefusedByName) {
  json value = json::parse(FormatManifest(Example()));
  const json::json_pointer pointer(GetParam().pointer);
  if (*GetParam().value == '\0') {
    value[pointer.parent_pointer()].erase(pointer.back());
  } else {
    value[pointer] = json::parse(GetParam().value);
  }
  const auto manifest = ParseManifest(value.dump());
  ASSERT_TRUE(absl::IsDataLoss(manifest.status())) << manifest.status();
  EXPECT_THAT(std::string(manifest.status().message()), HasSubstr(GetParam().named));
}

INSTANTIATE_TEST_SUITE_P(
    Members, BadManifestTest,
    testing::Values(
        BadMember{"/format", "\"zip\"", "format"}, BadMember{"/format_version", "2", "version"},
        BadMember{"/layer", "", "'layer' is missing"}, BadMember{"/layer", "-1", "layer"},
        BadMember{"/layer", "1.5", "layer"}, BadMember{"/layer", "\"3\"", "layer"},
        BadMember{"/layer", "18446744073709551615", "layer"}, BadMember{"/model", "3", "model"},
        BadMember{"/model/name", "7", "model.name"},
        BadMember{"/extra", "1", "'extra' is not a key"},
        BadMember{"/model/extra", "1", "model.extra"},
        BadMember{"/hook_convention", "\"x\"", "hook"},
        BadMember{"/attention/n_kv_heads", "2", "n_kv_heads"},
        BadMember{"/attention/n_kv_heads", "0", "n_kv_heads"},
        BadMember{"/attention/attn_scale", "0", "attn_scale"},
        BadMember{"/attention/rope/base", "1", "rope.base"},
        BadMember{"/attention/rope/rotary_dim", "65", "rotary_dim"},
        BadMember{"/attention/rope/rotary_dim", "66", "rotary_dim"},
        BadMember{"/attention/rope/adjacent_pairs", "0", "adjacent_pairs"},
        BadMember{"/attention/rope/ntk_by_parts/high_freq_factor", "1", "high_freq_factor"},
        BadMember{"/attention/rope/ntk_by_parts/original_context", "0", "original_context"},
        BadMember{"/attention/qk_norm/epsilon", "-1", "epsilon"},
        BadMember{"/d_model", "65537", "d_model"}, BadMember{"/context", "1048577", "context"},
        BadMember{"/context", "1048576", "out of bounds"},  // with d_model 576: over 1 GiB
        BadMember{"/element_type", "\"fp8\"", "element_type"},
        BadMember{"/sequences", "0", "sequences"},
        BadMember{"/sequences", "1563", "the shards have 1562"},
        BadMember{"/unmasked_tokens", "399873", "unmasked_tokens"},
        BadMember{"/mean_norm/mhsa_input", "-1", "mean_norm.mhsa_input"},
        BadMember{"/mean_norm/mhsa_input", "null", "mean_norm.mhsa_input"},
        BadMember{"/shards", "[]", "shards"},
        BadMember{"/shards/0/file", "\"../x.h5\"", "shards[0].file"},
        BadMember{"/shards/1/file", "\"shard-00002.h5\"", "shards[1].file"},
        BadMember{"/shards/0/bytes", "0", "shards[0].bytes"},
        // Two such shards would make the size of the set overflow.
        BadMember{"/shards/0/bytes", "4611686018427387904", "shards[0].bytes"},
        BadMember{"/shards/0/sha256", "\"AB\"", "shards[0].sha256"},
        BadMember{"/checksums/file", "\"/etc/passwd\"", "checksums.file"},
        BadMember{"/attention_weights/file", "\"x\"", "attention_weights.file"},
        BadMember{"/created", "\"yesterday\"", "created"},
        BadMember{"/created", "\"infinite-future\"", "created"}));

TEST(ManifestTest, TextThatIsNoObjectOfTheFormatIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("{}"),
        std::string("{\"model\":") + std::string(100000, '['), std::string(1000, '\xff')}) {
    EXPECT_TRUE(absl::IsDataLoss(ParseManifest(text).status())) << text.substr(0, 20);
  }
}

TEST(DescriptionTest, EveryKeyIsOptionalAndUnknownOnesAreRefused) {
  EXPECT_TRUE(ParseDescription("{}").ok());
  const auto back = ParseDescription(FormatDescription(Example()));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->model, "SmolLM2-135M-Instruct");
  EXPECT_EQ(back->attention->n_heads, 9);
  EXPECT_EQ(back->created, "2026-11-30T12:00:00Z");
  EXPECT_TRUE(absl::IsDataLoss(ParseDescription(R"({"sequences": 3})").status()));
  EXPECT_TRUE(absl::IsDataLoss(ParseDescription(R"({"attention": {"n_heads": 3}})").status()));
}

}  // namespace
}  // namespace lorsa::store
