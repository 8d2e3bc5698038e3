#include "server/jobs/folder_generation.h"

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace lorsa::server {
namespace {

constexpr size_t kMaxBytes = 64;

}  // namespace

absl::StatusOr<int64_t> ReadFolderGeneration(FileSystem& fs, const DataLayout& layout) {
  const std::string path = layout.GenerationFile();
  const absl::StatusOr<std::string> text = ReadFile(fs, path, kMaxBytes);
  if (absl::IsNotFound(text.status())) return 0;
  LORSA_RETURN_IF_ERROR(text.status());
  int64_t generation = 0;
  if (absl::SimpleAtoi(*text, &generation)) return generation;
  return absl::DataLossError(absl::StrCat(
      path,
      " does not hold a number: write one into it that is higher than the number of starts, "
      "so that the catalog counts as older than the data"));
}

absl::Status WriteFolderGeneration(FileSystem& fs, const DataLayout& layout, int64_t generation) {
  return WriteFileAtomically(fs, layout.GenerationFile(), absl::StrCat(generation, "\n"));
}

}  // namespace lorsa::server
