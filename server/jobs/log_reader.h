// Reads what the workers of a job printed.
#ifndef LORSA_SERVER_JOBS_LOG_READER_H_
#define LORSA_SERVER_JOBS_LOG_READER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "server/model/data_layout.h"

namespace lorsa::server {

// Where a reader stands: the byte of that attempt's log that comes next.
struct LogPlace {
  int attempt = 1;
  uint64_t offset = 0;
};

struct LogChunk {
  int attempt = 0;
  std::string text;  // whole lines of UTF-8, at most kMaxLogChunkBytes
  LogPlace end;      // where a reader goes on after it
};

inline constexpr size_t kMaxLogChunkBytes = 64 << 10;

// All attempts in order, from `start` on. One thread at a time.
class LogReader {
 public:
  // `fs` outlives the reader.
  LogReader(FileSystem& fs, DataLayout layout, std::string job_id, LogPlace start = {})
      : fs_(fs), layout_(std::move(layout)), job_id_(std::move(job_id)), place_(start) {}

  // The next piece, or nothing if there is none now. `attempts` is how many were launched;
  // `finished` says that the last of them prints no more, so that a last line without its end is
  // handed out too. A line longer than a chunk is cut.
  absl::StatusOr<std::optional<LogChunk>> Next(int attempts, bool finished);

 private:
  // Bytes from place_ on, at most a chunk; empty if there are none.
  absl::StatusOr<std::string> ReadAhead() const;

  FileSystem& fs_;
  const DataLayout layout_;
  const std::string job_id_;
  LogPlace place_;
};

inline constexpr size_t kLogTailBytes = 2048;

// The last lines of one attempt's log, at most `max_bytes`; empty if it cannot be read.
std::string LogTail(FileSystem& fs, const std::string& log_file, size_t max_bytes = kLogTailBytes);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_LOG_READER_H_
