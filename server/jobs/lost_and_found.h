// Where the server puts what it must not keep in its place and may not delete: it removes only what
// its catalog knows to be deleted.
#ifndef LORSA_SERVER_JOBS_LOST_AND_FOUND_H_
#define LORSA_SERVER_JOBS_LOST_AND_FOUND_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/file_system.h"
#include "server/jobs/job_environment.h"
#include "server/model/data_layout.h"

namespace lorsa::server {

// Moves `path`, a file or folder below the data folder, to lost+found/TIME/ with its path below the
// data folder, and logs it with `why`. OK if there is nothing at `path`. On error it stays in
// place.
absl::Status SetAside(FileSystem& fs, const DataLayout& layout, absl::Time time,
                      const std::string& path, absl::string_view why);

inline absl::Status SetAside(const JobEnvironment& env, const std::string& path,
                             absl::string_view why) {
  return SetAside(env.fs, env.layout, env.now(), path, why);
}

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_LOST_AND_FOUND_H_
