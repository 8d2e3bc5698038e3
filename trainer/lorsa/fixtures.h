// Golden files for the tests. The environment variable LORSA_FIXTURES names another folder of the
// same form as tests/data/fixtures to check instead; what it lacks comes from there.
#ifndef LORSA_TRAINER_LORSA_FIXTURES_H_
#define LORSA_TRAINER_LORSA_FIXTURES_H_

#include <ATen/core/Tensor.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/lorsa/lorsa_kernel.h"
#include "trainer/lorsa/lorsa_parameters.h"

namespace lorsa::trainer {

struct Fixture {
  std::string name;  // file name without .json
  nlohmann::json description;
  std::map<std::string, at::Tensor> tensors;

  // The named tensor; throws std::out_of_range, naming it, if the file has none.
  const at::Tensor& At(const std::string& tensor) const;
  // The parameters called prefix + name.
  LorsaParameters Parameters(const LorsaConfig& config, const std::string& prefix) const;
  // The configuration of the keys that all fixtures of the mathematics share.
  LorsaConfig Config() const;
};

// Names of the configurations of the mathematics: the .json files in lorsa_math, or in the folder
// itself if it has no such subfolder.
std::vector<std::string> MathFixtureNames();
Fixture LoadMathFixture(const std::string& name);
// One of the folder's other fixtures: "trajectory", "init_from_attention".
Fixture LoadFixture(const std::string& name);

// A step of the configuration's K over this batch alone.
StepOptions WholeStep(const LorsaConfig& config, const Batch& batch);

// max|actual − expected| / max|expected|; the plain maximum where `expected` is all zero.
double RelativeError(const at::Tensor& actual, const at::Tensor& expected);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_FIXTURES_H_
