#include "server/webhooks/webhook_sender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <nlohmann/json.hpp>

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

  absl::StatusOr<int> Post(const std::string& url, const std::vector<std::string>& headers,
                           const std::string& body) override {
    requests.push_back({url, headers, body});
    if (answers.empty()) return 200;
    absl::StatusOr<int> answer = answers.front();
    answers.pop_front();
    return answer;
  }
  void Cancel() override {}
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
  // A job with a webhook that has been cancelled.
  void End(const std::string& id) {
    NewJob job;
    job.id = id;
    job.policy.set_webhook(kUrl);
    ASSERT_TRUE(catalog_->CreateJob(job, now_).ok());
    const auto cancel = [](const JobRecord&) -> absl::StatusOr<JobChange> {
      return JobChange{.state = v1::JOB_STATE_CANCELLED, .reason = "CANCELLED"};
    };
    ASSERT_TRUE(catalog_->UpdateJob(id, now_, cancel).ok());
  }
  // From now on the catalog fails to change a notice in that way.
  void RefuseWrites(const std::string& verb) {
    const auto connection = Connection::OpenExisting(folder_.Path("catalog.sqlite")).value();
    const std::string trigger = "CREATE TRIGGER no_" + verb + " BEFORE " + verb +
                                " ON notices BEGIN SELECT RAISE(ABORT, 'refused'); END";
    ASSERT_TRUE(connection->Execute(trigger).ok());
  }
  std::vector<PendingNotice> Pending() {
    return catalog_->DueNotices(absl::InfiniteFuture(), 100).value();
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
  EXPECT_FALSE(sender.SendDue());
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
  sender.SendDue();
  EXPECT_THAT(http_.requests, SizeIs(1));
}

TEST_F(WebhookSenderTest, WhatIsRefusedIsSentAgainAfterAPauseThatDoubles) {
  End("demo");
  http_.answers = {500, absl::UnavailableError("no connection"), 302, 204};
  auto sender = Sender();
  std::vector<int64_t> sent_at;
  for (int second = 0; second < 60; ++second, now_ += absl::Seconds(1)) {
    const size_t before = http_.requests.size();
    sender.SendDue();
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
  Sender().SendDue();
  Restart();
  now_ += absl::Seconds(5);
  Sender().SendDue();
  EXPECT_THAT(http_.requests, SizeIs(2));
  EXPECT_THAT(Pending(), IsEmpty());
}

// A stop of the server in the middle of a call put the notice off as if it had been refused.
TEST_F(WebhookSenderTest, ACallThatAStopCutsOffIsNoFailure) {
  End("demo");
  http_.answers = {absl::CancelledError("the server is stopping")};
  Sender().SendDue();
  Restart();
  Sender().SendDue();
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
      sender.SendDue();
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
  EXPECT_FALSE(Sender().SendDue());
  EXPECT_THAT(http_.requests, IsEmpty());
  EXPECT_THAT(Pending(), IsEmpty());
}

TEST_F(WebhookSenderTest, OneThatIsGivenUpAfterItsFirstTryHasThatTry) {
  End("demo");
  now_ += absl::Minutes(5);
  give_up_ = absl::ZeroDuration();
  http_.answers = {500};
  Sender().SendDue();
  EXPECT_THAT(http_.requests, SizeIs(1));
  EXPECT_THAT(Pending(), IsEmpty());
}

TEST_F(WebhookSenderTest, AReceiverThatIsNoLongerAllowedIsNotCalled) {
  End("demo");
  Sender(WebhookReceivers({"example.com"})).SendDue();
  EXPECT_THAT(http_.requests, IsEmpty());
  EXPECT_THAT(Pending(), SizeIs(1));
}

TEST_F(WebhookSenderTest, MoreThanOneCallTakesAreSentInTurn) {
  for (int i = 0; i < 20; ++i) End("job-" + std::to_string(i));
  auto sender = Sender();
  EXPECT_TRUE(sender.SendDue());
  EXPECT_FALSE(sender.SendDue());
  EXPECT_THAT(http_.requests, SizeIs(20));
}

// The thread sent the same notices again without a pause while the catalog took no write.
TEST_F(WebhookSenderTest, WhatCannotBeStoredIsNotSentAgainAtOnce) {
  for (int i = 0; i < 20; ++i) End("job-" + std::to_string(i));
  RefuseWrites("DELETE");
  EXPECT_FALSE(Sender().SendDue());
  EXPECT_THAT(http_.requests, SizeIs(16));
  RefuseWrites("UPDATE");
  http_.answers = std::deque<absl::StatusOr<int>>(16, 500);
  EXPECT_FALSE(Sender().SendDue());
  EXPECT_THAT(Pending(), SizeIs(20));
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
