// activation_store/manifest: what is accepted is written and read back the same, and can be
// described to a client.
#include "activation_store/manifest.h"
#include "job_spec/describe_set.h"
#include "tests/fuzz/fuzz.h"

using namespace lorsa;  // NOLINT

namespace {

void FuzzManifest(absl::string_view text) {
  const auto manifest = store::ParseManifest(text);
  if (!manifest.ok()) return FUZZ_CHECK(absl::IsDataLoss(manifest.status()));
  const std::string written = store::FormatManifest(*manifest);
  const auto again = store::ParseManifest(written);
  FUZZ_CHECK(again.ok() && store::FormatManifest(*again) == written);
  const v1::ActivationSet set = DescribeSet(*manifest, "input");
  FUZZ_CHECK(set.size_bytes() > 0 && set.sequences() >= set.held_out_sequences());
}

void FuzzDescription(absl::string_view text) {
  const auto description = store::ParseDescription(text);
  if (!description.ok()) return FUZZ_CHECK(absl::IsDataLoss(description.status()));
  const std::string written = store::FormatDescription(*description);
  const auto again = store::ParseDescription(written);
  FUZZ_CHECK(again.ok() && store::FormatDescription(*again) == written);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzManifest(fuzz::AsText(data, size));
  FuzzDescription(fuzz::AsText(data, size));
  return 0;
}
