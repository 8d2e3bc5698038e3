// job_spec/sweep: lists of values for fields of a specification. Every combination that comes out
// differs from the others, and they are as many as the values make.
#include <set>

#include "job_spec/sweep.h"
#include "job_spec/textproto.h"
#include "tests/fuzz/fuzz.h"

using namespace lorsa;  // NOLINT

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMaxCombinations = 256;
  v1::Sweep sweep;
  const std::string text(fuzz::AsText(data, size));
  if (!ParseTextproto("input", text, sweep).ok()) return 0;
  const ExpandedSweep expanded = ExpandSweep(sweep.spec(), sweep.parameters());
  if (!expanded.violations.empty()) {
    FUZZ_CHECK(expanded.combinations.empty());
    return 0;
  }
  size_t expected = 1;
  for (const v1::SweepParameter& parameter : sweep.parameters()) {
    expected *= static_cast<size_t>(parameter.values_size());
  }
  FUZZ_CHECK(expanded.combinations.size() == expected && expected <= kMaxCombinations);
  std::set<std::string> different;
  for (const SweepCombination& combination : expanded.combinations) {
    different.insert(combination.spec.SerializeAsString());
  }
  FUZZ_CHECK(different.size() == expected);
  return 0;
}
