// attention.safetensors: the layer's own weights beside the shards of a set.
#ifndef LORSA_ACTIVATION_STORE_ATTENTION_WEIGHTS_H_
#define LORSA_ACTIVATION_STORE_ATTENTION_WEIGHTS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "activation_store/manifest.h"
#include "base/file_system.h"

namespace lorsa::store {

// OK if the file holds the tensors that the format asks of this geometry, fp32 and of the right
// shapes, and no others. DATA_LOSS naming file and tensor if not.
absl::Status CheckAttentionWeights(FileSystem& fs, const std::string& path,
                                   const AttentionGeometry& attention, int64_t d_model);

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_ATTENTION_WEIGHTS_H_
