// Which URLs a job's webhook may have: those of hosts that the operator named, so that nobody who
// may submit a job can make the server call into the network around it.
#ifndef LORSA_SERVER_WEBHOOKS_WEBHOOK_RECEIVERS_H_
#define LORSA_SERVER_WEBHOOKS_WEBHOOK_RECEIVERS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lorsa::server {

// Immutable; thread-safe. Allows nothing unless it is told hosts.
class WebhookReceivers {
 public:
  WebhookReceivers() = default;
  // As WebhooksConfig.allowed_hosts, each of which ValidateReceiver lets pass.
  explicit WebhookReceivers(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {}

  // INVALID_ARGUMENT, "is … ; do …" after the field's name, unless `url` is http or https to an
  // allowed host, without user or password. The URL is taken apart by the library that calls it.
  absl::Status Check(const std::string& url) const;

 private:
  std::vector<std::string> hosts_;
};

// INVALID_ARGUMENT unless `host` is HOST or HOST:PORT; IPv6 addresses stand in brackets.
absl::Status ValidateReceiver(const std::string& host);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_WEBHOOKS_WEBHOOK_RECEIVERS_H_
