#include "server/webhooks/webhook_sender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/monotonic_clock.h"
#include "base/scratch_folder.h"
#include "server/catalog/sqlite.h"
#include "server/webhooks/webhook_signature.h"

namespace lorsa::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kUrl[] = "https://example.org/hook";

class FakePost final : public HttpPost {
 public:
  struct Request {
    std::string url;
    std::vector<std::string> headers;
    std::string body;
  };
  std::deque<absl::StatusOr<int>> answers;  // of the next calls; then 200
  std::vector<Request> requests;
  std::string slow_url;  // does not answer before Cancel

  absl::StatusOr<int> Post(const std::string& url, const std::vector<std::string>& headers,
                           const std::string& body) override {
    absl::MutexLock lock(&mu_);
    requests.push_back({url, headers, body});
    if (url == slow_url) {
      mu_.Await(absl::Condition(&cancelled_));
      return absl::CancelledError("the server is stopping");
    }
    if (answers.empty()) return 200;
    absl::StatusOr<int> answer = answers.front();
    answers.pop_front();
    return answer;
  }
  void Cancel() override {
    absl::MutexLock lock(&mu_);
    cancelled_ = true;
  }
  std::vector<std::string> urls() {
    absl::MutexLock lock(&mu_);
    std::vector<std::string> urls;
    for (const Request& request : requests) urls.push_back(request.url);
    return urls;
  }

 private:
  absl::Mutex mu_;
  bool cancelled_ = false;
};

class WebhookSenderTest : public ::testing::Test {
 protected:
  WebhookSenderTest() { Restart(); }

  void Restart() {
    catalog_.reset();
    catalog_ = Catalog::Open(folder_.Path("catalog.sqlite")).value();
  }
  WebhookSender Sender(const WebhookReceivers& receivers = WebhookReceivers({"example.org"})) {
    return WebhookSender({.catalog = *catalog_,
                          .http = http_,
                          .now = [this] { return now_; },
                          .receivers = receivers,
                          .key = "key",
                          .give_up = give_up_,
                          .user_agent = "lorsad/test"});
  }
  // Sends what is due, and waits for the answers.
  static void SendDue(WebhookSender& sender) {
    sender.SendDue();
    sender.AwaitCalls();
  }
  void SendDue() {
    WebhookSender sender = Sender();
    SendDue(sender);
  }
  void Become(const std::string& id, v1::JobState state) {
    const auto change = [state](const JobRecord&) -> absl::StatusOr<JobChange> {
      return JobChange{.state = state, .reason = "TEST"};
    };
    ASSERT_TRUE(catalog_->UpdateJob(id, now_, change).ok());
  }
  // A job with a webhook that has been cancelled.
  void End(const std::string& id, const std::string& url = kUrl) {
    NewJob job;
    job.id = id;
    job.policy.set_webhook(url);
    ASSERT_TRUE(catalog_->CreateJob(job, now_).ok());
    Become(id, v1::JOB_STATE_CANCELLED);
  }
  // From now on the catalog fails to change a notice in that way.
  void RefuseWrites(const std::string& verb) {
    const auto connection = Connection::OpenExisting(folder_.Path("catalog.sqlite")).value();
    const std::string trigger = "CREATE TRIGGER no_" + verb + " BEFORE " + verb +
                                " ON notices BEGIN SELECT RAISE(ABORT, 'refused'); END";
    ASSERT_TRUE(connection->Execute(trigger).ok());
  }
  std::vector<PendingNotice> Pending() {
    return catalog_->DueNotices(absl::InfiniteFuture(), {.per_receiver = 100}).value();
  }

  ScratchFolder folder_;
  std::unique_ptr<Catalog> catalog_;
  FakePost http_;
  absl::Duration give_up_ = absl::Hours(24);
  absl::Time now_ = absl::FromUnixSeconds(1'796'000'000);
};

TEST_F(WebhookSenderTest, ANoticeIsPostedSignedAndThenGone) {
  End("demo");
  auto sender = Sender();
  SendDue(sender);
  ASSERT_THAT(http_.requests, SizeIs(1));
  const FakePost::Request& request = http_.requests[0];
  EXPECT_EQ(request.url, kUrl);
  const auto body = nlohmann::json::parse(request.body);
  EXPECT_EQ(body["id"], "demo:2:1796000000000000000");
  EXPECT_EQ(body["job"]["name"], "jobs/demo");
  EXPECT_EQ(body["job"]["state"], "JOB_STATE_CANCELLED");
  EXPECT_THAT(request.headers, Contains("Content-Type: application/json"));
  EXPECT_THAT(request.headers, Contains("X-Lorsa-Notice: demo:2:1796000000000000000"));
  EXPECT_THAT(request.headers,
              Contains("X-Lorsa-Signature: " + WebhookSignature("key", now_, request.body)));
  EXPECT_THAT(Pending(), IsEmpty());
  SendDue(sender);
  EXPECT_THAT(http_.requests, SizeIs(1));
}

TEST_F(WebhookSenderTest, WhatIsRefusedIsSentAgainAfterAPauseThatDoubles) {
  End("demo");
  http_.answers = {500, absl::UnavailableError("no connection"), 302, 204};
  auto sender = Sender();
  std::vector<int64_t> sent_at;
  for (int second = 0; second < 60; ++second, now_ += absl::Seconds(1)) {
    const size_t before = http_.requests.size();
    SendDue(sender);
    if (http_.requests.size() > before) sent_at.push_back(second);
  }
  EXPECT_THAT(sent_at, ElementsAre(0, 5, 15, 35));
  EXPECT_EQ(http_.requests[0].body, http_.requests[3].body);
  EXPECT_NE(http_.requests[0].headers, http_.requests[3].headers);  // The signature's time.
  EXPECT_THAT(Pending(), IsEmpty());
}

TEST_F(WebhookSenderTest, AnotherServerGoesOnWithWhatIsLeft) {
  End("demo");
  http_.answers = {500};
  SendDue();
  Restart();
  now_ += absl::Seconds(5);
  SendDue();
  EXPECT_THAT(http_.requests, SizeIs(2));
  EXPECT_THAT(Pending(), IsEmpty());
}

// A stop of the server in the middle of a call put the notice off as if it had been refused.
TEST_F(WebhookSenderTest, ACallThatAStopCutsOffIsNoFailure) {
  End("demo");
  http_.answers = {absl::CancelledError("the server is stopping")};
  SendDue();
  Restart();
  SendDue();
  EXPECT_THAT(http_.requests, SizeIs(2));
  EXPECT_THAT(Pending(), IsEmpty());
}

TEST_F(WebhookSenderTest, AfterADayANoticeIsGivenUp) {
  End("demo");
  auto sender = Sender();
  int tries = 0;
  while (!Pending().empty()) {
    ASSERT_LT(++tries, 100);
    http_.answers = {503};
    while (http_.requests.size() < static_cast<size_t>(tries)) {
      SendDue(sender);
      now_ += absl::Seconds(5);
    }
  }
  EXPECT_GT(tries, 24);  // Once an hour in the end.
  EXPECT_LT(now_, absl::FromUnixSeconds(1'796'000'000) + absl::Hours(24));
  EXPECT_GT(now_, absl::FromUnixSeconds(1'796'000'000) + absl::Hours(22));
}

// Webhooks that were put back into the configuration brought notices of months before.
TEST_F(WebhookSenderTest, ANoticeThatWasLeftTooLongIsGivenUpUnsent) {
  End("demo");
  now_ += absl::Hours(24) + absl::Seconds(1);
  SendDue();
  EXPECT_THAT(http_.requests, IsEmpty());
  EXPECT_THAT(Pending(), IsEmpty());
}

TEST_F(WebhookSenderTest, OneThatIsGivenUpAfterItsFirstTryHasThatTry) {
  End("demo");
  now_ += absl::Minutes(5);
  give_up_ = absl::ZeroDuration();
  http_.answers = {500};
  SendDue();
  EXPECT_THAT(http_.requests, SizeIs(1));
  EXPECT_THAT(Pending(), IsEmpty());
}

TEST_F(WebhookSenderTest, AReceiverThatIsNoLongerAllowedIsNotCalled) {
  End("demo");
  auto sender = Sender(WebhookReceivers({"example.com"}));
  SendDue(sender);
  EXPECT_THAT(http_.requests, IsEmpty());
  EXPECT_THAT(Pending(), SizeIs(1));
}

TEST_F(WebhookSenderTest, MoreThanOneReceiverIsToBearAreSentInTurn) {
  for (int i = 0; i < 5; ++i) End("job-" + std::to_string(i));
  auto sender = Sender();
  for (const size_t sent : {2, 4, 5, 5}) {
    SendDue(sender);
    EXPECT_THAT(http_.requests, SizeIs(sent));
  }
}

// One receiver that hung kept the notices of all others back, for 10 s each.
TEST_F(WebhookSenderTest, AReceiverThatHangsDelaysNoOther) {
  http_.slow_url = "https://slow.example.org/hook";
  for (int i = 0; i < 40; ++i) End("slow-" + std::to_string(i), http_.slow_url);
  for (int i = 0; i < 5; ++i) End("fast-" + std::to_string(i));
  auto sender = Sender(WebhookReceivers({"example.org", "slow.example.org"}));
  sender.Start();
  const absl::Duration began = MonotonicNow();
  while (std::ranges::count(http_.urls(), kUrl) < 5 && MonotonicNow() - began < absl::Seconds(30)) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(std::ranges::count(http_.urls(), kUrl), 5);
  EXPECT_LE(std::ranges::count(http_.urls(), http_.slow_url), 2);
}

// The notice of a retried job's success came before that of its failure, which was sent again
// later.
TEST_F(WebhookSenderTest, TheNoticesOfAJobComeInOrder) {
  http_.answers = {500};
  End("demo");
  auto sender = Sender();
  SendDue(sender);
  // What a retry does to a job that has failed; this one was cancelled.
  const auto connection = Connection::OpenExisting(folder_.Path("catalog.sqlite")).value();
  ASSERT_TRUE(connection->Execute("UPDATE jobs SET state = 1").ok());
  Become("demo", v1::JOB_STATE_CANCELLED);
  SendDue(sender);
  EXPECT_THAT(http_.requests, SizeIs(1));
  now_ += absl::Seconds(5);
  SendDue(sender);
  SendDue(sender);
  ASSERT_THAT(http_.requests, SizeIs(3));
  EXPECT_EQ(http_.requests[1].body, http_.requests[0].body);
  EXPECT_NE(http_.requests[2].body, http_.requests[0].body);
}

TEST_F(WebhookSenderTest, AClockThatIsSetBackKeepsNoNoticeWaiting) {
  End("demo");
  http_.answers = {500};
  auto sender = Sender();
  SendDue(sender);
  now_ -= absl::Hours(24);
  SendDue(sender);
  EXPECT_THAT(http_.requests, SizeIs(2));
}

// The thread sent the same notices again without a pause while the catalog took no write.
TEST_F(WebhookSenderTest, WhatCannotBeStoredIsNotSentAgainAtOnce) {
  for (int i = 0; i < 5; ++i) End("job-" + std::to_string(i));
  RefuseWrites("DELETE");
  auto sender = Sender();
  SendDue(sender);
  SendDue(sender);
  EXPECT_THAT(http_.requests, SizeIs(2));
  RefuseWrites("UPDATE");
  http_.answers = {500, 500};
  SendDue();
  EXPECT_THAT(Pending(), SizeIs(5));
}

TEST(PauseAfterTest, DoublesUpToAnHour) {
  EXPECT_EQ(PauseAfter(1), absl::Seconds(5));
  EXPECT_EQ(PauseAfter(2), absl::Seconds(10));
  EXPECT_EQ(PauseAfter(10), absl::Seconds(2560));
  EXPECT_EQ(PauseAfter(11), absl::Hours(1));
  EXPECT_EQ(PauseAfter(1000), absl::Hours(1));
}

}  // namespace
}  // namespace lorsa::server
