// Reads what the workers of a job printed.
#ifndef LORSA_SERVER_JOBS_LOG_READER_H_
#define LORSA_SERVER_JOBS_LOG_READER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "server/jobs/data_layout.h"

namespace lorsa::server {

struct LogChunk {
  int attempt = 0;
  std::string text;  // whole lines of UTF-8, at most kMaxLogChunkBytes
};

inline constexpr size_t kMaxLogChunkBytes = 64 << 10;

// All attempts in order, from the first byte on. One thread at a time.
class LogReader {
 public:
  // `fs` outlives the reader.
  LogReader(FileSystem& fs, DataLayout layout, std::string job_id)
      : fs_(fs), layout_(std::move(layout)), job_id_(std::move(job_id)) {}

  // The next piece, or nothing if there is none now. `attempts` is how many were launched;
  // `finished` says that the last of them prints no more, so that a last line without its end is
  // handed out too. A line longer than a chunk is cut.
  absl::StatusOr<std::optional<LogChunk>> Next(int attempts, bool finished);

 private:
  // Bytes of the current attempt's log from offset_ on, at most a chunk; empty if it has none.
  absl::StatusOr<std::string> ReadAhead() const;

  FileSystem& fs_;
  const DataLayout layout_;
  const std::string job_id_;
  int attempt_ = 1;
  uint64_t offset_ = 0;
};

inline constexpr size_t kLogTailBytes = 2048;

// The last lines of one attempt's log, at most `max_bytes`; empty if it cannot be read.
std::string LogTail(FileSystem& fs, const std::string& log_file, size_t max_bytes = kLogTailBytes);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_LOG_READER_H_
