#include "server/webhooks/webhook_key.h"

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace lorsa::server {
namespace {

constexpr size_t kMinBytes = 16;
constexpr uint64_t kMaxBytes = 4096;

}  // namespace

absl::StatusOr<std::string> ReadWebhookKey(FileSystem& fs, const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const std::string text, ReadFile(fs, path, kMaxBytes));
  const absl::string_view key = absl::StripAsciiWhitespace(text);
  if (key.size() >= kMinBytes) return std::string(key);
  return absl::InvalidArgumentError(absl::StrCat(path, " holds ", key.size(),
                                                 " bytes; give at least ", kMinBytes,
                                                 ", such as those of `openssl rand -hex 32`"));
}

}  // namespace lorsa::server
