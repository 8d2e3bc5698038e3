// The key that signs notices, which an operator put into a file.
#ifndef LORSA_SERVER_WEBHOOKS_WEBHOOK_KEY_H_
#define LORSA_SERVER_WEBHOOKS_WEBHOOK_KEY_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/file_system.h"

namespace lorsa::server {

// What the file holds, without the white space around it. INVALID_ARGUMENT for less than 16 bytes,
// else the error of reading; each names the file.
absl::StatusOr<std::string> ReadWebhookKey(FileSystem& fs, const std::string& path);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_WEBHOOKS_WEBHOOK_KEY_H_
