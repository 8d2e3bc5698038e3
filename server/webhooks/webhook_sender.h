// Sends the notices of jobs that have ended to their webhooks.
//
//   1. The transaction that ends a job stores its notice (catalog/notice_table.h).
//   2. What is due is posted, signed, and taken out of the catalog once a receiver has answered
//   with
//      2xx. A crash between the two sends it again, under the same id: a notice comes at least
//      once. Receivers are called in parallel, so that a slow one delays no other; the notices of
//      one job come one after the other.
//   3. What is answered otherwise, or not at all, is due again after a pause that doubles; it is
//      given up, with a line in the log, after a day or what the operator set; so is, unsent, one
//      that was left that old.
#ifndef LORSA_SERVER_WEBHOOKS_WEBHOOK_SENDER_H_
#define LORSA_SERVER_WEBHOOKS_WEBHOOK_SENDER_H_

#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/periodic_thread.h"
#include "server/catalog/catalog.h"
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
  // All of the environment outlives the sender. Sends on threads of its own from Start on.
  explicit WebhookSender(WebhookEnvironment environment);
  // Ends the calls under way.
  ~WebhookSender();

  void Start() { thread_.Start(); }

  // Begins to send what is due, as far as the bounds on calls allow: what Start's thread does.
  void SendDue();
  // Waits for the calls under way. As SendDue, not from two threads at once.
  void AwaitCalls();

 private:
  struct Call {
    std::string receiver;
    std::future<void> under_way;
  };

  bool MayBegin(const PendingNotice& notice) const;
  void Begin(const PendingNotice& notice);
  void End(int64_t number, bool stored);
  void ForgetEnded();

  // These return whether the catalog has stored what became of the notice.
  bool Send(const PendingNotice& notice);
  bool Postpone(const PendingNotice& notice, absl::string_view why);
  bool GiveUp(const PendingNotice& notice, int tries, absl::string_view why);

  absl::Status Post(const PendingNotice& notice);
  bool IsLeftOver(const PendingNotice& notice) const;

  const WebhookEnvironment env_;
  PeriodicThread thread_;
  absl::Mutex mu_;
  // By number of the notice, when a call that is over is forgotten, in MonotonicNow. If it could
  // not be stored what became of the notice, that is due as before, and must not go out again at
  // once.
  std::map<int64_t, absl::Duration> ended_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, Call> calls_;  // of the caller of SendDue alone; gone before the rest
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_WEBHOOKS_WEBHOOK_SENDER_H_
