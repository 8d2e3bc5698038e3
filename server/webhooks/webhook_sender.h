// Sends the notices of jobs that have ended to their webhooks.
//
//   1. The transaction that ends a job stores its notice (catalog/notice_table.h).
//   2. This thread posts what is due, signed, and takes it out of the catalog once a receiver has
//      answered with 2xx. A crash between the two sends it again, under the same id: a notice comes
//      at least once.
//   3. What is answered otherwise, or not at all, is due again after a pause that doubles; it is
//      given up, with a line in the log, after a day or what the operator set; so is, unsent, one
//      that was left that old.
#ifndef LORSA_SERVER_WEBHOOKS_WEBHOOK_SENDER_H_
#define LORSA_SERVER_WEBHOOKS_WEBHOOK_SENDER_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/catalog/catalog.h"
#include "server/jobs/periodic_thread.h"
#include "server/webhooks/http_post.h"
#include "server/webhooks/webhook_receivers.h"

namespace lorsa::server {

struct WebhookEnvironment {
  Catalog& catalog;
  HttpPost& http;
  std::function<absl::Time()> now;
  WebhookReceivers receivers;
  std::string key;         // of the signatures
  absl::Duration give_up;  // age at which a notice is given up
  std::string user_agent;
};

// The pause after a notice's `tries`-th failure: 5 s, doubled with each, at most an hour.
absl::Duration PauseAfter(int tries);

class WebhookSender {
 public:
  // All of the environment outlives the sender. Sends on a thread of its own from Start on.
  explicit WebhookSender(WebhookEnvironment environment);
  // Ends the call under way.
  ~WebhookSender();

  void Start() { thread_.Start(); }

  // Sends each notice that is due, once; true if more may be due, and the catalog has stored what
  // became of these. What Start's thread does.
  bool SendDue();

 private:
  // These return whether the catalog has stored what became of the notice.
  bool Send(const PendingNotice& notice);
  bool Postpone(const PendingNotice& notice, absl::string_view why);
  bool GiveUp(const PendingNotice& notice, int tries, absl::string_view why);

  absl::Status Post(const PendingNotice& notice);
  bool IsLeftOver(const PendingNotice& notice) const;

  const WebhookEnvironment env_;
  PeriodicThread thread_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_WEBHOOKS_WEBHOOK_SENDER_H_
