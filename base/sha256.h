// SHA-256 (FIPS 180-4) through OpenSSL, as lower-case hex.
#ifndef LORSA_BASE_SHA256_H_
#define LORSA_BASE_SHA256_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"

namespace lorsa {

// Incremental digest. One thread at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void Update(absl::string_view data);
  // The digest of all that was given: 64 hex digits. Call once, last.
  std::string HexDigest();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string Sha256Hex(absl::string_view data);

// Adds the contents of a file to `hash`, read in pieces of 1 MiB, and returns their length in
// bytes. Errors are those of FileSystem and of `on_piece`, which is called with the length of each
// piece and stops the pass with an error.
absl::StatusOr<uint64_t> HashFile(FileSystem& fs, const std::string& path, Sha256& hash,
                                  const std::function<absl::Status(uint64_t)>& on_piece = nullptr);

absl::StatusOr<std::string> Sha256OfFile(FileSystem& fs, const std::string& path);

}  // namespace lorsa

#endif  // LORSA_BASE_SHA256_H_
