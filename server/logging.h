// Where lorsad's log lines go.
#ifndef LORSA_SERVER_LOGGING_H_
#define LORSA_SERVER_LOGGING_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace lorsa::server {

struct LogOptions {
  std::string level = "info";  // debug, info, warn or error
  // Empty = stderr.
  std::string file;
  // A file of this size becomes FILE.1 (FILE.1 FILE.2, …), as many as `old_files`.
  int64_t max_file_bytes = 64 << 20;
  int old_files = 5;
};

// Sets up spdlog's default logger and sends what gRPC says there too. An error is one sentence for
// the operator: the file cannot be opened.
absl::Status SetUpLogging(const LogOptions& options);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_LOGGING_H_
