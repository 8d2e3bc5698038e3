#include "lorsa/client/job_log.h"

#include <gtest/gtest.h>

#include "client/cpp/testing/fake_services.h"

namespace lorsa::client {
namespace {

class JobLogTest : public testing::Test {
 protected:
  JobLogTest() {
    client_ = *Client::Create({.server = server_.address(),
                               .initial_backoff = absl::Milliseconds(5),
                               .max_backoff = absl::Milliseconds(20)});
    request_.set_name("jobs/a");
    server_.jobs.jobs["jobs/a"].set_name("jobs/a");
    AddLines(1, "one\ntwo\n");
    AddLines(1, "three\n");
    AddLines(2, "four\n");
  }
  void AddLines(int attempt, const std::string& text) {
    server_.jobs.logs.emplace_back().set_attempt(attempt);
    server_.jobs.logs.back().set_text(text);
  }
  absl::Status Run() {
    return ReadJobLog(
        *client_, request_,
        [this](const v1::ReadLogsResponse& lines) {
          seen_ += std::to_string(lines.attempt()) + ":" + lines.text();
        },
        nullptr);
  }

  FakeServer server_;
  std::unique_ptr<Client> client_;
  v1::ReadLogsRequest request_;
  std::string seen_;
};

TEST_F(JobLogTest, ABrokenStreamIsGoneOnWithAndEachLineComesOnce) {
  server_.jobs.log_cuts = {2, 0, 0};
  EXPECT_EQ(Run(), absl::OkStatus());
  EXPECT_EQ(seen_, "1:one\ntwo\n1:three\n2:four\n");
}

TEST_F(JobLogTest, AJobThatDoesNotExistIsNotFound) {
  request_.set_name("jobs/b");
  EXPECT_TRUE(absl::IsNotFound(Run()));
}

}  // namespace
}  // namespace lorsa::client
