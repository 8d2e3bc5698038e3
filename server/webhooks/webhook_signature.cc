#include "server/webhooks/webhook_signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace lorsa::server {

std::string WebhookSignature(absl::string_view key, absl::Time now, absl::string_view body) {
  const std::string seconds = absl::StrCat(absl::ToUnixSeconds(now));
  const std::string text = absl::StrCat(seconds, ".", body);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &size);
  const absl::string_view bytes(reinterpret_cast<const char*>(digest), size);
  return absl::StrCat("t=", seconds, ",v1=", absl::BytesToHexString(bytes));
}

}  // namespace lorsa::server
