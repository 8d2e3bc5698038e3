// Files from outside are first parsed by a child process (lorsa-inspect) with limits on its memory
// and time: whatever a file does to a parser, lorsad lives on and says which file it was.
#ifndef LORSA_SERVER_INSPECTION_INSPECTOR_H_
#define LORSA_SERVER_INSPECTION_INSPECTOR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/file_system.h"
#include "server/inspection/inspected_folder.h"

namespace lorsa::server {

struct InspectionLimits {
  int64_t memory_bytes = int64_t{3} << 29;  // of address space: 1.5 GiB
  // Of CPU, and twice as much on the clock. What grows with the files: 1 s for so many bytes.
  absl::Duration time = absl::Seconds(30);
  int64_t bytes_per_second = 256 << 20;
};

struct Inspection {
  // OK if every file parses. Else the error of the parser; or DATA_LOSS naming the file at which
  // the child crashed or went beyond its limits; or INTERNAL if no child could be run.
  absl::Status status;
  // The child came to an end by itself, so this process may open the files too: through `files`.
  bool ended = false;
  std::shared_ptr<InspectedFolder> files;
};

// Thread-safe. Blocks until the child has ended, which is bounded.
class Inspector {
 public:
  // `program`: where lorsa-inspect is. `fs` outlives this.
  Inspector(FileSystem& fs, std::string program, InspectionLimits limits = {})
      : fs_(fs), program_(std::move(program)), limits_(limits) {}

  Inspection InspectSet(const std::string& folder) const { return Inspect("set", folder); }
  Inspection InspectCheckpoint(const std::string& folder) const {
    return Inspect("checkpoint", folder);
  }

 private:
  Inspection Inspect(const std::string& kind, const std::string& folder) const;

  FileSystem& fs_;
  const std::string program_;
  const InspectionLimits limits_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_INSPECTION_INSPECTOR_H_
