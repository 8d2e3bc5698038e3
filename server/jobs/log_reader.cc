#include "server/jobs/log_reader.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace lorsa::server {
namespace {

absl::StatusOr<std::string> ReadPiece(FileSystem& fs, const std::string& path, uint64_t offset,
                                      uint64_t max_bytes) {
  LORSA_ASSIGN_OR_RETURN(const auto file, fs.OpenForRead(path));
  if (file->size() <= offset) return "";
  std::string bytes(std::min<uint64_t>(file->size() - offset, max_bytes), '\0');
  LORSA_RETURN_IF_ERROR(file->ReadAt(offset, absl::MakeSpan(bytes)));
  return bytes;
}

}  // namespace

absl::StatusOr<std::string> LogReader::ReadAhead() const {
  absl::StatusOr<std::string> bytes =
      ReadPiece(fs_, layout_.LogFile(job_id_, place_.attempt), place_.offset, kMaxLogChunkBytes);
  // An attempt whose worker could not be spawned may have no log.
  if (absl::IsNotFound(bytes.status())) return "";
  return bytes;
}

absl::StatusOr<std::optional<LogChunk>> LogReader::Next(int attempts, bool finished) {
  for (; place_.attempt <= attempts; place_ = {place_.attempt + 1, 0}) {
    LORSA_ASSIGN_OR_RETURN(std::string bytes, ReadAhead());
    const bool closed = place_.attempt < attempts || finished;
    const size_t line_end = bytes.rfind('\n');
    if (line_end != std::string::npos) {
      bytes.resize(line_end + 1);
    } else if (bytes.size() < kMaxLogChunkBytes && !closed) {
      return std::nullopt;
    }
    if (!bytes.empty()) {
      place_.offset += bytes.size();
      return LogChunk{place_.attempt, Utf8Prefix(bytes, kMaxLogChunkBytes), place_};
    }
    if (place_.attempt == attempts) return std::nullopt;
  }
  return std::nullopt;
}

std::string LogTail(FileSystem& fs, const std::string& log_file, size_t max_bytes) {
  const auto file = fs.OpenForRead(log_file);
  if (!file.ok()) return "";
  const uint64_t offset = (*file)->size() > max_bytes ? (*file)->size() - max_bytes : 0;
  const absl::StatusOr<std::string> bytes = ReadPiece(fs, log_file, offset, max_bytes);
  if (!bytes.ok()) return "";
  absl::string_view tail = *bytes;
  if (offset > 0) tail.remove_prefix(std::min(tail.find('\n') + 1, tail.size()));
  return Utf8Prefix(absl::StripTrailingAsciiWhitespace(tail), max_bytes);
}

}  // namespace lorsa::server
