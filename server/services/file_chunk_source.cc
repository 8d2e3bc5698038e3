#include "server/services/file_chunk_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/crc32c.h"
#include "base/error_details.h"
#include "base/status_macros.h"

namespace lorsa::server {
namespace {

// A download whose client stalls holds a chunk twice: as a message and as its bytes.
constexpr int64_t kChunkBytes = 256 << 10;

absl::Status Changed(const std::string& path, absl::string_view how) {
  return WithReason(absl::AbortedError(absl::StrCat(path, " ", how,
                                                    ": it is not the file that was published; "
                                                    "start again with another checkpoint or set")),
                    "FILE_CHANGED", {{"path", path}});
}

absl::Status CheckRange(const FileRange& range) {
  if (range.offset < 0) return InvalidField("offset", "must not be negative");
  if (range.limit < 0) return InvalidField("limit", "must not be negative");
  if (range.offset > range.size) {
    return WithReason(absl::OutOfRangeError(absl::StrCat("offset ", range.offset,
                                                         " lies beyond the end of the file, which "
                                                         "has ",
                                                         range.size, " bytes")),
                      "OFFSET_BEYOND_END");
  }
  return absl::OkStatus();
}

int64_t EndOf(const FileRange& range) {
  const int64_t rest = range.size - range.offset;
  return range.offset + (range.limit == 0 ? rest : std::min(range.limit, rest));
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileChunkSource>> FileChunkSource::Open(FileSystem& fs,
                                                                       FileRange range) {
  LORSA_RETURN_IF_ERROR(CheckRange(range));
  absl::StatusOr<std::unique_ptr<ReadableFile>> file = fs.OpenForRead(range.path);
  if (absl::IsNotFound(file.status()) || absl::IsInvalidArgument(file.status())) {
    return Changed(range.path, "is missing or no regular file");
  }
  if (!file.ok()) return std::move(file).status();
  if (static_cast<int64_t>((*file)->size()) != range.size) {
    return Changed(range.path, absl::StrCat("has ", (*file)->size(), " bytes, not ", range.size));
  }
  return std::unique_ptr<FileChunkSource>(new FileChunkSource(std::move(range), *std::move(file)));
}

FileChunkSource::FileChunkSource(FileRange range, std::unique_ptr<ReadableFile> file)
    : range_(std::move(range)),
      file_(std::move(file)),
      end_(EndOf(range_)),
      position_(range_.offset) {
  if (position_ == 0 && end_ == range_.size) sha256_ = std::make_unique<Sha256>();
}

absl::StatusOr<Pulled> FileChunkSource::Next(v1::FileChunk& chunk) {
  if (any_sent_ && position_ == end_) return Pulled::kEnd;
  std::string& data = *chunk.mutable_data();
  data.resize(static_cast<size_t>(std::min(kChunkBytes, end_ - position_)));
  const absl::Status read = file_->ReadAt(static_cast<uint64_t>(position_), absl::MakeSpan(data));
  if (absl::IsOutOfRange(read)) return Changed(range_.path, "was truncated");
  LORSA_RETURN_IF_ERROR(read);
  chunk.set_offset(position_);
  chunk.set_crc32c(Crc32c(data));
  chunk.set_file_size(range_.size);
  chunk.set_file_sha256(range_.sha256);
  position_ += static_cast<int64_t>(data.size());
  any_sent_ = true;
  LORSA_RETURN_IF_ERROR(CheckWhole(data));
  return Pulled::kMessage;
}

absl::Status FileChunkSource::CheckWhole(const std::string& data) {
  if (sha256_ == nullptr) return absl::OkStatus();
  sha256_->Update(data);
  if (position_ < end_ || sha256_->HexDigest() == range_.sha256) return absl::OkStatus();
  return Changed(range_.path, "has another sha256");
}

}  // namespace lorsa::server
