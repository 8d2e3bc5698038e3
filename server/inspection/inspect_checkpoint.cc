#include "server/inspection/inspect_checkpoint.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/identifiers.h"
#include "base/json_fields.h"
#include "base/safetensors.h"
#include "base/status_macros.h"

namespace lorsa::server {
namespace {

// Of each document; whoever reads it refuses a longer one by its size.
constexpr uint64_t kMaxJsonBytes = 1 << 20;
constexpr int kMaxJsonDepth = 16;

absl::Status ParseJson(FileSystem& fs, const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const auto file, fs.OpenForRead(path));
  if (file->size() > kMaxJsonBytes) return absl::OkStatus();
  LORSA_ASSIGN_OR_RETURN(const std::string text, ReadFile(fs, path, kMaxJsonBytes));
  const absl::Status parsed = ParseJsonObject(text, kMaxJsonDepth).status();
  if (parsed.ok()) return parsed;
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", parsed.message()));
}

}  // namespace

absl::Status InspectCheckpoint(FileSystem& fs, const std::string& folder,
                               const std::function<void(const std::string& name)>& on_file) {
  LORSA_ASSIGN_OR_RETURN(const auto names, fs.List(folder));
  absl::Status first;
  for (const std::string& name : names) {
    if (!ValidateId("file name", name).ok()) continue;  // No checkpoint may list it.
    const std::string path = JoinPath(folder, name);
    if (absl::EndsWith(name, ".json")) {
      on_file(name);
      first.Update(ParseJson(fs, path));
    } else if (absl::EndsWith(name, ".safetensors")) {
      on_file(name);
      first.Update(SafetensorsReader::Open(fs, path).status());
    }
  }
  return first;
}

}  // namespace lorsa::server
