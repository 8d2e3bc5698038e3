// Parsing the files of a checkpoint from outside without looking at what they hold.
#ifndef LORSA_SERVER_INSPECTION_INSPECT_CHECKPOINT_H_
#define LORSA_SERVER_INSPECTION_INSPECT_CHECKPOINT_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "base/file_system.h"

namespace lorsa::server {

// Takes the files of a checkpoint's folder through the parsers that will read them: JSON documents
// and headers of safetensors. As store::InspectSet otherwise.
absl::Status InspectCheckpoint(FileSystem& fs, const std::string& folder,
                               const std::function<void(const std::string& name)>& on_file);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_INSPECTION_INSPECT_CHECKPOINT_H_
