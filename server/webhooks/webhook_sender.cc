#include "server/webhooks/webhook_sender.h"

#include <google/protobuf/util/json_util.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/monotonic_clock.h"
#include "base/status_macros.h"
#include "server/webhooks/webhook_signature.h"

namespace lorsa::server {
namespace {

constexpr absl::Duration kInterval = absl::Seconds(1);
constexpr absl::Duration kFirstPause = absl::Seconds(5);
constexpr absl::Duration kLongestPause = absl::Hours(1);
// Each call has a thread of its own. No receiver gets more of them than these, so that some that
// hang leave enough for the others.
constexpr size_t kMaxCalls = 32;
constexpr int kCallsPerReceiver = 2;

absl::StatusOr<std::string> JsonOf(const v1::JobEndedNotice& notice) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(notice, &json, options);
  if (status.ok()) return json;
  return absl::InternalError(absl::StrCat("no JSON of it: ", std::string(status.message())));
}

// A write that fails is no reason to stop: the notice stays due, and is sent again.
bool IsStored(const PendingNotice& notice, const absl::Status& write) {
  if (write.ok()) return true;
  spdlog::error("event=webhook_not_stored notice={} message=\"{}\"", notice.notice.id(),
                std::string(write.message()));
  return false;
}

void LogRefusal(absl::string_view event, const PendingNotice& notice, int tries,
                absl::string_view why) {
  spdlog::warn("event={} notice={} tries={} message=\"{}\"", std::string(event), notice.notice.id(),
               tries, std::string(why));
}

}  // namespace

absl::Duration PauseAfter(int tries) {
  constexpr int kDoublings = 10;  // beyond the longest pause
  return std::min(kFirstPause * (1 << std::min(tries - 1, kDoublings)), kLongestPause);
}

WebhookSender::WebhookSender(WebhookEnvironment environment)
    : env_(std::move(environment)), thread_(kInterval, [this] {
        SendDue();
        return false;
      }) {}

WebhookSender::~WebhookSender() {
  env_.http.Cancel();
  thread_.Stop();
}

void WebhookSender::SendDue() {
  ForgetEnded();
  const auto due = env_.catalog.DueNotices(
      env_.now(), {.per_receiver = kCallsPerReceiver, .longest_pause = kLongestPause});
  if (!due.ok()) {
    spdlog::error("event=webhooks_not_read message=\"{}\"", std::string(due.status().message()));
    return;
  }
  for (const PendingNotice& notice : *due) {
    if (MayBegin(notice)) Begin(notice);
  }
}

bool WebhookSender::MayBegin(const PendingNotice& notice) const {
  if (calls_.size() >= kMaxCalls || calls_.contains(notice.number)) return false;
  return std::ranges::count(calls_, notice.receiver, [](const auto& call) {
           return call.second.receiver;
         }) < kCallsPerReceiver;
}

void WebhookSender::Begin(const PendingNotice& notice) {
  try {
    calls_[notice.number] = {.receiver = notice.receiver,
                             .under_way = std::async(std::launch::async, [this, notice] {
                               End(notice.number, Send(notice));
                             })};
  } catch (const std::system_error& error) {  // The system gives no thread; the notice stays due.
    calls_.erase(notice.number);
    LogRefusal("webhook_not_sent", notice, notice.tries, error.what());
  }
}

void WebhookSender::End(int64_t number, bool stored) {
  {
    absl::MutexLock lock(&mu_);
    ended_[number] = MonotonicNow() + (stored ? absl::ZeroDuration() : kInterval);
  }
  if (stored) thread_.Poke();  // There is room for another call.
}

void WebhookSender::ForgetEnded() {
  absl::MutexLock lock(&mu_);
  std::erase_if(ended_, [this](const auto& ended) {
    return ended.second <= MonotonicNow() && calls_.erase(ended.first) > 0;
  });
}

void WebhookSender::AwaitCalls() {
  for (const auto& [number, call] : calls_) call.under_way.wait();
}

bool WebhookSender::Send(const PendingNotice& notice) {
  if (IsLeftOver(notice)) return GiveUp(notice, notice.tries, "it is too old to be sent");
  const absl::Status status = Post(notice);
  if (absl::IsCancelled(status)) return false;  // No fault of the receiver's: it stays due.
  if (!status.ok()) return Postpone(notice, status.message());
  spdlog::info("event=webhook_taken notice={} tries={}", notice.notice.id(), notice.tries + 1);
  return IsStored(notice, env_.catalog.RemoveNotice(notice.number));
}

// From a time without webhooks, or without this server. One that a sender has looked after is given
// up by Postpone, and later than its age by less than the longest pause.
bool WebhookSender::IsLeftOver(const PendingNotice& notice) const {
  return env_.now() > notice.create_time + std::max(env_.give_up, kLongestPause);
}

absl::Status WebhookSender::Post(const PendingNotice& notice) {
  LORSA_RETURN_IF_ERROR(env_.receivers.Check(notice.url));  // They may have changed since.
  LORSA_ASSIGN_OR_RETURN(const std::string body, JsonOf(notice.notice));
  const std::vector<std::string> headers = {
      "Content-Type: application/json", absl::StrCat("User-Agent: ", env_.user_agent),
      absl::StrCat("X-Lorsa-Notice: ", notice.notice.id()),
      absl::StrCat("X-Lorsa-Signature: ", WebhookSignature(env_.key, env_.now(), body))};
  LORSA_ASSIGN_OR_RETURN(const int answer, env_.http.Post(notice.url, headers, body));
  if (answer >= 200 && answer < 300) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the receiver answered with ", answer));
}

bool WebhookSender::Postpone(const PendingNotice& notice, absl::string_view why) {
  const int tries = notice.tries + 1;
  const absl::Time next = env_.now() + PauseAfter(tries);
  if (next > notice.create_time + env_.give_up) return GiveUp(notice, tries, why);
  LogRefusal("webhook_refused", notice, tries, why);
  return IsStored(notice, env_.catalog.PostponeNotice(notice.number, next));
}

bool WebhookSender::GiveUp(const PendingNotice& notice, int tries, absl::string_view why) {
  LogRefusal("webhook_given_up", notice, tries, why);
  return IsStored(notice, env_.catalog.RemoveNotice(notice.number));
}

}  // namespace lorsa::server
