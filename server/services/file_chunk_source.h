// A file on its way to a client, in chunks with checksums: what ReadFile and ReadAttentionWeights
// share.
#ifndef LORSA_SERVER_SERVICES_FILE_CHUNK_SOURCE_H_
#define LORSA_SERVER_SERVICES_FILE_CHUNK_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "base/sha256.h"
#include "lorsa/v1/file_chunk.pb.h"
#include "server/rpc/server_stream.h"

namespace lorsa::server {

// A file as it was when it was published, and the part of it that is asked for.
struct FileRange {
  std::string path;
  int64_t size = 0;    // bytes of the whole file
  std::string sha256;  // of the whole file, hex
  int64_t offset = 0;
  int64_t limit = 0;  // bytes; 0 = to the end
};

// Chunks of 256 KiB; an empty range gives one empty chunk, so that a client always learns size and
// sha256. A file that is not the published one any more ends the stream with ABORTED (reason
// FILE_CHANGED): found by its size at once, and by its sha256 before the last chunk of a read of
// the whole file. (A client that reads a part compares the sha256 of what it has put together.)
class FileChunkSource final : public StreamSource<v1::FileChunk> {
 public:
  // INVALID_ARGUMENT for a negative offset or limit, OUT_OF_RANGE for an offset beyond the end,
  // ABORTED (FILE_CHANGED) if the file is missing, not a regular file, or of another size.
  static absl::StatusOr<std::unique_ptr<FileChunkSource>> Open(FileSystem& fs, FileRange range);

  absl::StatusOr<Pulled> Next(v1::FileChunk& chunk) override;

 private:
  FileChunkSource(FileRange range, std::unique_ptr<ReadableFile> file);
  absl::Status CheckWhole(const std::string& data);

  const FileRange range_;
  const std::unique_ptr<ReadableFile> file_;
  const int64_t end_;  // first byte not sent
  int64_t position_;   // first byte of the next chunk
  bool any_sent_ = false;
  std::unique_ptr<Sha256> sha256_;  // of a read of the whole file; else null
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_FILE_CHUNK_SOURCE_H_
