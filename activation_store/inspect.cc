#include "activation_store/inspect.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "activation_store/checksums.h"
#include "activation_store/folder.h"
#include "activation_store/hdf5_library.h"
#include "activation_store/manifest.h"
#include "activation_store/shard_reader.h"
#include "base/safetensors.h"
#include "base/status_macros.h"

namespace lorsa::store {
namespace {

class SetInspection {
 public:
  SetInspection(FileSystem& fs, const std::string& folder,
                const std::function<void(const std::string&)>& on_file)
      : fs_(fs), folder_(folder), on_file_(on_file) {}

  absl::Status Run() {
    LORSA_ASSIGN_OR_RETURN(names_, fs_.List(folder_));
    Parse(kManifestFile, &SetInspection::ParseManifestFile);
    for (const std::string& shard : Shards()) Parse(shard, &SetInspection::ParseShard);
    Parse(kChecksumsFile, &SetInspection::ParseChecksums);
    Parse(kAttentionFile, &SetInspection::ParseAttention);
    return first_;
  }

 private:
  using Parser = absl::Status (SetInspection::*)(const std::string& path);

  void Parse(const std::string& name, Parser parser) {
    if (!std::binary_search(names_.begin(), names_.end(), name)) return;
    on_file_(name);
    first_.Update((this->*parser)(JoinPath(folder_, name)));
  }

  // Those that a reader will open: of a sealed set what its manifest lists, else all.
  std::vector<std::string> Shards() const {
    std::vector<std::string> shards;
    if (manifest_.has_value()) {
      for (const ShardRecord& record : manifest_->shards) shards.push_back(record.file);
      return shards;
    }
    std::copy_if(names_.begin(), names_.end(), std::back_inserter(shards), [](const auto& name) {
      return absl::StartsWith(name, "shard-") && absl::EndsWith(name, ".h5");
    });
    return shards;
  }

  absl::Status ParseShard(const std::string& path) {
    LORSA_ASSIGN_OR_RETURN(const ShardReader::Opened opened, ShardReader::Open(fs_, path));
    sequences_.push_back(opened.shard->shape().sequences);
    const auto& attribute = opened.shard->set_attribute();
    if (!attribute.has_value()) return absl::OkStatus();
    const absl::Status described = ParseDescription(*attribute).status();
    if (described.ok()) return described;
    return DamagedFile(path,
                       absl::StrCat("attribute '", kSetAttribute, "': ", described.message()));
  }

  absl::Status ParseManifestFile(const std::string&) {
    LORSA_ASSIGN_OR_RETURN(SealedManifest sealed, ReadManifest(fs_, folder_));
    manifest_ = std::move(sealed.manifest);
    return absl::OkStatus();
  }

  absl::Status ParseChecksums(const std::string& path) {
    return ChecksumsReader::Open(fs_, path, sequences_).status();
  }

  absl::Status ParseAttention(const std::string& path) {
    return SafetensorsReader::Open(fs_, path).status();
  }

  FileSystem& fs_;
  const std::string& folder_;
  const std::function<void(const std::string&)>& on_file_;
  std::vector<std::string> names_;  // in the folder, sorted
  std::optional<Manifest> manifest_;
  std::vector<int64_t> sequences_;  // of each shard
  absl::Status first_;              // error
};

}  // namespace

absl::Status InspectSet(FileSystem& fs, const std::string& folder,
                        const std::function<void(const std::string& name)>& on_file) {
  return SetInspection(fs, folder, on_file).Run();
}

}  // namespace lorsa::store
