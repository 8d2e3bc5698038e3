// How a receiver knows that a notice comes from this server, and when it was sent.
#ifndef LORSA_SERVER_WEBHOOKS_WEBHOOK_SIGNATURE_H_
#define LORSA_SERVER_WEBHOOKS_WEBHOOK_SIGNATURE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace lorsa::server {

// "t=SECONDS,v1=HEX": seconds since the Unix epoch, and HMAC-SHA256 with `key` of SECONDS, a dot
// and the body.
std::string WebhookSignature(absl::string_view key, absl::Time now, absl::string_view body);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_WEBHOOKS_WEBHOOK_SIGNATURE_H_
