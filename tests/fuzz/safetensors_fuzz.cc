// base/safetensors: what is accepted can be read to its last byte, and written again.
#include <utility>
#include <vector>

#include "base/safetensors.h"
#include "tests/fuzz/fuzz.h"

using namespace lorsa;  // NOLINT

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static PosixFileSystem fs;
  static fuzz::InputFile file("input.safetensors");
  const std::string& path = file.Hold(fuzz::AsText(data, size));
  const auto reader = SafetensorsReader::Open(fs, path);
  if (!reader.ok()) {
    FUZZ_CHECK(absl::IsDataLoss(reader.status()));
    return 0;
  }
  std::vector<std::string> contents;
  std::vector<SafetensorsTensor> tensors;
  contents.reserve(reader->entries().size());  // The tensors point into it.
  for (const auto& [name, entry] : reader->entries()) {
    FUZZ_CHECK(entry.offset + entry.bytes <= size);
    std::string& bytes = contents.emplace_back(entry.bytes, '\0');
    FUZZ_CHECK(reader->Read(entry, absl::MakeSpan(bytes)).ok());
    tensors.push_back({name, entry.dtype, entry.shape, bytes});
  }
  static fuzz::InputFile copy("copy.safetensors");
  const std::string& copy_path = copy.Hold("");
  FUZZ_CHECK(WriteSafetensors(fs, copy_path, tensors, reader->metadata()).ok());
  const auto again = SafetensorsReader::Open(fs, copy_path);
  FUZZ_CHECK(again.ok() && again->metadata() == reader->metadata());
  for (const auto& [name, entry] : reader->entries()) {
    const auto found = again->Find(name);
    FUZZ_CHECK(found.ok() && found->dtype == entry.dtype && found->shape == entry.shape);
  }
  return 0;
}
