#include "activation_store/attention_weights.h"

#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "activation_store/hdf5_library.h"
#include "base/safetensors.h"
#include "base/status_macros.h"

namespace lorsa::store {
namespace {

struct ExpectedTensor {
  std::vector<int64_t> shape;
  bool required = false;
};

std::map<std::string, ExpectedTensor> ExpectedTensors(const AttentionGeometry& attention,
                                                      int64_t d_model) {
  const int64_t q = attention.n_heads * attention.d_head;
  const int64_t kv = attention.n_kv_heads * attention.d_head;
  const bool qk_norm = attention.qk_norm.has_value();
  std::map<std::string, ExpectedTensor> tensors = {{"q_proj.weight", {{q, d_model}, true}},
                                                   {"k_proj.weight", {{kv, d_model}, true}},
                                                   {"v_proj.weight", {{kv, d_model}, true}},
                                                   {"o_proj.weight", {{d_model, q}, true}},
                                                   {"q_proj.bias", {{q}}},
                                                   {"k_proj.bias", {{kv}}},
                                                   {"v_proj.bias", {{kv}}},
                                                   {"o_proj.bias", {{d_model}}},
                                                   {"input_norm.weight", {{d_model}}},
                                                   {"input_norm.bias", {{d_model}}}};
  if (qk_norm) {
    tensors["q_norm.weight"] = {{attention.d_head}, true};
    tensors["k_norm.weight"] = {{attention.d_head}, true};
  }
  return tensors;
}

}  // namespace

absl::Status CheckAttentionWeights(FileSystem& fs, const std::string& path,
                                   const AttentionGeometry& attention, int64_t d_model) {
  LORSA_ASSIGN_OR_RETURN(const SafetensorsReader reader, SafetensorsReader::Open(fs, path));
  const auto expected = ExpectedTensors(attention, d_model);
  for (const auto& [name, tensor] : expected) {
    if (tensor.required && !reader.entries().contains(name)) {
      return DamagedFile(path, absl::StrCat("has no tensor '", name, "'"));
    }
  }
  for (const auto& [name, entry] : reader.entries()) {
    const auto it = expected.find(name);
    if (it == expected.end()) {
      return DamagedFile(
          path, absl::StrCat("has a tensor '", name, "', which the set's attention does not"));
    }
    if (entry.dtype != "F32" || entry.shape != it->second.shape) {
      return DamagedFile(path, absl::StrCat("tensor '", name, "' is ", entry.dtype, " [",
                                            absl::StrJoin(entry.shape, ", "), "] instead of F32 [",
                                            absl::StrJoin(it->second.shape, ", "), "]"));
    }
  }
  return absl::OkStatus();
}

}  // namespace lorsa::store
