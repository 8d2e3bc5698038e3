#include "base/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "absl/strings/escaping.h"
#include "base/status_macros.h"

namespace lorsa {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr);
}

Sha256::~Sha256() = default;

void Sha256::Update(absl::string_view data) {
  EVP_DigestUpdate(context_->evp, data.data(), data.size());
}

std::string Sha256::HexDigest() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int length = 0;
  EVP_DigestFinal_ex(context_->evp, digest.data(), &length);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), length));
}

std::string Sha256Hex(absl::string_view data) {
  Sha256 hash;
  hash.Update(data);
  return hash.HexDigest();
}

absl::StatusOr<uint64_t> HashFile(FileSystem& fs, const std::string& path, Sha256& hash,
                                  const std::function<absl::Status(uint64_t)>& on_piece) {
  LORSA_ASSIGN_OR_RETURN(auto file, fs.OpenForRead(path));
  std::string buffer(1 << 20, '\0');
  for (uint64_t offset = 0; offset < file->size();) {
    const uint64_t n = std::min<uint64_t>(buffer.size(), file->size() - offset);
    LORSA_RETURN_IF_ERROR(file->ReadAt(offset, absl::MakeSpan(buffer.data(), n)));
    hash.Update(absl::string_view(buffer.data(), n));
    if (on_piece) LORSA_RETURN_IF_ERROR(on_piece(n));
    offset += n;
  }
  return file->size();
}

absl::StatusOr<std::string> Sha256OfFile(FileSystem& fs, const std::string& path) {
  Sha256 hash;
  LORSA_RETURN_IF_ERROR(HashFile(fs, path, hash).status());
  return hash.HexDigest();
}

}  // namespace lorsa
