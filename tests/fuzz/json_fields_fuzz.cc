// base/json_fields: the strict reader of JSON under every document of ours. Numbers stay within
// their bounds whatever the document says, and a first error is reported.
#include <cmath>

#include "base/json_fields.h"
#include "tests/fuzz/fuzz.h"

using namespace lorsa;  // NOLINT

namespace {

constexpr int kMaxDepth = 3;

// Levels of objects and arrays, one inside the other.
int Depth(const nlohmann::json& value) {
  if (!value.is_structured()) return 0;
  int deepest = 0;
  for (const nlohmann::json& member : value) deepest = std::max(deepest, Depth(member));
  return deepest + 1;
}

void TakeMembers(const nlohmann::json& value) {
  JsonFields fields(value, "");
  FUZZ_CHECK(fields.Text("text").size() <= 1024);
  const int64_t small = fields.Integer("small", -3, 5);
  FUZZ_CHECK(small >= -3 && small <= 5);
  const int64_t any = fields.Integer("any", 0, INT64_MAX);
  FUZZ_CHECK(any >= 0);
  const double positive = fields.Positive("positive");
  const double not_negative = fields.NotNegative("not_negative");
  fields.Boolean("boolean");
  if (const nlohmann::json* inner = fields.Nullable("inner")) {
    JsonFields members(*inner, fields.Path("inner"));
    members.Boolean("boolean");
    fields.Take(members.Finish());
  }
  const absl::Status status = fields.Finish();
  FUZZ_CHECK(status.ok() || absl::IsDataLoss(status));
  if (!status.ok()) return;
  FUZZ_CHECK(std::isfinite(positive) && positive > 0);
  FUZZ_CHECK(std::isfinite(not_negative) && not_negative >= 0);
  FUZZ_CHECK(value.size() == 7);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto value = ParseJsonObject(fuzz::AsText(data, size), kMaxDepth);
  if (!value.ok()) {
    FUZZ_CHECK(absl::IsDataLoss(value.status()));
    return 0;
  }
  FUZZ_CHECK(value->is_object() && Depth(*value) <= kMaxDepth);
  TakeMembers(*value);
  return 0;
}
