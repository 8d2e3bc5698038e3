#include "trainer/lorsa/fixtures.h"

#include <ATen/ATen.h>

#include <cmath>
#include <cstdlib>
#include <stdexcept>

#include "base/file_system.h"
#include "trainer/lorsa/tensor_file.h"

namespace lorsa::trainer {
namespace {

constexpr uint64_t kMaxDescriptionBytes = 1 << 20;

template <typename T>
T ValueOrThrow(absl::StatusOr<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().ToString());
  return *std::move(result);
}

std::string DefaultFolder() { return LORSA_SOURCE_DIR "/tests/data/fixtures"; }

std::string Folder() {
  const char* chosen = std::getenv("LORSA_FIXTURES");
  return chosen != nullptr && *chosen != 0 ? chosen : DefaultFolder();
}

std::string MathFolder() {
  PosixFileSystem fs;
  const std::string folder = JoinPath(Folder(), "lorsa_math");
  return ValueOrThrow(fs.Exists(folder)) ? folder : Folder();
}

Fixture Load(const std::string& folder, const std::string& name) {
  PosixFileSystem fs;
  Fixture fixture{.name = name};
  fixture.description = nlohmann::json::parse(
      ValueOrThrow(ReadFile(fs, JoinPath(folder, name + ".json"), kMaxDescriptionBytes)));
  const TensorFile file =
      ValueOrThrow(TensorFile::Open(fs, JoinPath(folder, name + ".safetensors")));
  for (const auto& [tensor, entry] : file.entries()) {
    fixture.tensors[tensor] = ValueOrThrow(file.Read(tensor));
  }
  return fixture;
}

store::Rope RopeOf(const nlohmann::json& j) {
  store::Rope rope{.base = j.at("rotary_base"),
                   .rotary_dim = j.at("rotary_dim"),
                   .adjacent_pairs = j.at("adjacent")};
  const nlohmann::json ntk = j.value("ntk", nlohmann::json());
  if (!ntk.is_null()) {
    rope.ntk_by_parts = store::NtkByParts{.factor = ntk.at(0),
                                          .low_freq_factor = ntk.at(1),
                                          .high_freq_factor = ntk.at(2),
                                          .original_context = ntk.at(3)};
  }
  return rope;
}

}  // namespace

const at::Tensor& Fixture::At(const std::string& tensor) const {
  const auto found = tensors.find(tensor);
  if (found == tensors.end()) throw std::out_of_range(name + " has no tensor " + tensor);
  return found->second;
}

LorsaParameters Fixture::Parameters(const LorsaConfig& config, const std::string& prefix) const {
  LorsaParameters parameters;
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    parameters.*spec.member = At(prefix + spec.name);
  }
  return parameters;
}

LorsaConfig Fixture::Config() const {
  const nlohmann::json& j = description;
  LorsaConfig config{.d_model = j.at("d_model"),
                     .n_ov_heads = j.at("n_ov"),
                     .n_qk_heads = j.at("n_qk"),
                     .d_qk = j.at("d_qk"),
                     .top_k = j.at("k"),
                     .select_by_decoder_norm = j.value("decoder_norm", true),
                     .decoder_bias = j.value("decoder_bias", true)};
  config.attn_scale = j.value("attn_scale", std::sqrt(static_cast<double>(config.d_qk)));
  if (j.value("rope", true)) config.rope = RopeOf(j);
  if (j.value("qk_norm", false)) config.qk_norm = store::QkNorm{.epsilon = 1e-6};
  return config;
}

std::vector<std::string> MathFixtureNames() {
  PosixFileSystem fs;
  std::vector<std::string> names;
  for (const std::string& file : ValueOrThrow(fs.List(MathFolder()))) {
    const size_t dot = file.rfind(".json");
    if (dot == std::string::npos || dot + 5 != file.size()) continue;
    const std::string text =
        ValueOrThrow(ReadFile(fs, JoinPath(MathFolder(), file), kMaxDescriptionBytes));
    // The folder may also hold fixtures of another kind.
    if (nlohmann::json::parse(text).contains("decoder_norm")) names.push_back(file.substr(0, dot));
  }
  return names;
}

Fixture LoadMathFixture(const std::string& name) { return Load(MathFolder(), name); }

Fixture LoadFixture(const std::string& name) {
  PosixFileSystem fs;
  const bool own = ValueOrThrow(fs.Exists(JoinPath(Folder(), name + ".json")));
  return Load(own ? Folder() : DefaultFolder(), name);
}

StepOptions WholeStep(const LorsaConfig& config, const Batch& batch) {
  return {.top_k = config.top_k, .loss_targets = batch.mask.sum().item<int64_t>()};
}

double RelativeError(const at::Tensor& actual, const at::Tensor& expected) {
  if (actual.sizes() != expected.sizes()) throw std::invalid_argument("shapes differ");
  const double error = (actual - expected).abs().max().item<double>();
  const double scale = expected.abs().max().item<double>();
  return scale > 0 ? error / scale : error;
}

}  // namespace lorsa::trainer
