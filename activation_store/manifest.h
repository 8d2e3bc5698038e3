// The manifest of an activation set: what docs/activation_format.md describes, in memory.
#ifndef LORSA_ACTIVATION_STORE_MANIFEST_H_
#define LORSA_ACTIVATION_STORE_MANIFEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lorsa::store {

// Bounds of the format, checked wherever a set enters.
inline constexpr int64_t kMaxContext = 1 << 20;
inline constexpr int64_t kMaxDModel = 1 << 16;
inline constexpr int64_t kMaxSequenceBytes = 1 << 30;  // input and output together
inline constexpr int64_t kMaxShards = 100000;
inline constexpr int64_t kMaxShardSequences = 1 << 24;
inline constexpr int64_t kMaxManifestBytes = 32 << 20;

// Names of the files in a set's folder.
inline constexpr char kManifestFile[] = "manifest.json";
inline constexpr char kChecksumsFile[] = "checksums.h5";
inline constexpr char kAttentionFile[] = "attention.safetensors";
std::string ShardFile(int64_t shard);  // "shard-00000.h5" for 0

enum class ElementType { kBFloat16, kFloat16, kFloat32 };

// Bytes of one element: 2 or 4.
int64_t ElementSize(ElementType type);
// "bf16", "fp16", "fp32".
absl::string_view ElementTypeName(ElementType type);

struct NtkByParts {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_context = 0;  // positions
};

struct Rope {
  double base = 10000;
  int64_t rotary_dim = 0;
  bool adjacent_pairs = false;
  std::optional<NtkByParts> ntk_by_parts;
};

struct QkNorm {
  double epsilon = 1e-6;
};

struct AttentionGeometry {
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;
  int64_t d_head = 0;
  double attn_scale = 0;
  std::optional<Rope> rope;
  std::optional<QkNorm> qk_norm;
};

struct FileRecord {
  std::string file;  // a bare name in the set's folder
  int64_t bytes = 0;
  std::string sha256;  // hex
};

struct ShardRecord : FileRecord {
  int64_t sequences = 0;
};

struct Manifest {
  std::string model;
  std::string model_revision;
  int64_t layer = 0;
  std::string hook_convention = "transformers.self_attn";
  std::optional<AttentionGeometry> attention;
  int64_t d_model = 0;
  int64_t context = 0;  // positions per sequence
  ElementType element_type = ElementType::kBFloat16;
  int64_t sequences = 0;
  int64_t unmasked_tokens = 0;
  double mean_input_norm = 0;
  double mean_output_norm = 0;
  std::vector<ShardRecord> shards;
  FileRecord checksums;
  std::optional<FileRecord> attention_weights;
  std::string producer;
  std::string created;  // RFC 3339, UTC

  // Sequences at the end of the set that never enter training: max(128, ceil(2 %)), but not more
  // than there are.
  int64_t held_out_sequences() const;
  int64_t training_sequences() const { return sequences - held_out_sequences(); }
};

// DATA_LOSS naming the key that is missing, unknown, of the wrong type or out of its bounds.
absl::StatusOr<Manifest> ParseManifest(absl::string_view json);

// The same manifest gives the same bytes.
std::string FormatManifest(const Manifest& manifest);

// The JSON of the root attribute `lorsa_set`, by which a producer describes the model: model,
// layer, hook_convention, attention, producer and created, each optional. Errors as above.
absl::StatusOr<Manifest> ParseDescription(absl::string_view json);
std::string FormatDescription(const Manifest& manifest);

// OK if context, d_model and the bytes of a sequence are within the bounds; else INVALID_ARGUMENT.
absl::Status CheckSequenceShape(int64_t context, int64_t d_model, ElementType type);

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_MANIFEST_H_
