// server/jobs/checkpoint_files: the manifest of a staged checkpoint, as a worker or a client left
// it. What is accepted lists the files of the folder, each once, by names that cannot leave it.
#include "base/identifiers.h"
#include "base/sha256.h"
#include "server/jobs/checkpoint_files.h"
#include "tests/fuzz/fuzz.h"

using namespace lorsa;  // NOLINT

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static PosixFileSystem fs;
  static fuzz::InputFile manifest(server::kManifestFile);
  const absl::string_view text = fuzz::AsText(data, size);
  manifest.Hold(text);
  const auto files = server::VerifyCheckpointFiles(fs, manifest.folder(), Sha256Hex(text));
  if (!files.ok()) {
    FUZZ_CHECK(absl::IsInvalidArgument(files.status()) || absl::IsNotFound(files.status()) ||
               absl::IsDataLoss(files.status()));
    return 0;
  }
  FUZZ_CHECK(files->size() == 1 && files->front().name() == server::kManifestFile);
  return 0;
}
