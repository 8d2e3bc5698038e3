#include "lorsa/client/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/notification.h"
#include "client/cpp/testing/fake_services.h"

namespace lorsa::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<Client> Connect(const std::string& server) {
  auto client = Client::Create({.server = server,
                                .call_deadline = absl::Seconds(20),
                                .initial_backoff = absl::Milliseconds(5),
                                .max_backoff = absl::Milliseconds(20),
                                .max_outage = absl::Milliseconds(200)});
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

v1::GetJobRequest GetJob(const std::string& name) {
  v1::GetJobRequest request;
  request.set_name(name);
  return request;
}

TEST(ClientTest, AServerWithoutPortIsRefused) {
  for (const char* server : {"", "localhost", ":7070", "localhost:", "localhost:0", "a:65536"}) {
    const auto client = Client::Create({.server = server});
    ASSERT_TRUE(absl::IsInvalidArgument(client.status())) << server;
    EXPECT_THAT(std::string(client.status().message()), HasSubstr("HOST:PORT"));
  }
}

TEST(ClientTest, ACallReturnsTheAnswerOrTheServersSentence) {
  FakeServer server;
  server.jobs.jobs["jobs/a"].set_name("jobs/a");
  const auto client = Connect(server.address());
  const auto job = client->Call(&v1::JobService::Stub::GetJob, GetJob("jobs/a"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name(), "jobs/a");

  const auto missing = client->Call(&v1::JobService::Stub::GetJob, GetJob("jobs/b"));
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_EQ(missing.status().message(), "there is no jobs/b");
}

TEST(ClientTest, AnUnreachableServerIsTransient) {
  FakeServer server;
  const auto client = Connect(server.address());
  server.Stop();
  const auto job = client->Call(&v1::JobService::Stub::GetJob, GetJob("jobs/a"));
  EXPECT_TRUE(absl::IsUnavailable(job.status()));
  EXPECT_TRUE(IsTransient(job.status()));
  EXPECT_EQ(ErrorReason(job.status()), "");
}

TEST(ClientTest, AReadSurvivesARestartBetweenTwoCalls) {
  FakeServer server;
  server.jobs.jobs["jobs/a"].set_name("jobs/a");
  const auto client = Connect(server.address());
  ASSERT_TRUE(client->Call(&v1::JobService::Stub::GetJob, GetJob("jobs/a")).ok());
  server.Stop();
  server.Start();
  EXPECT_TRUE(client->Call(&v1::JobService::Stub::GetJob, GetJob("jobs/a")).ok());
}

TEST(ClientTest, AStreamEndsWithTheErrorOfItsReader) {
  FakeServer server;
  server.sets.sets["activationSets/a"].set_name("activationSets/a");
  const auto client = Connect(server.address());
  v1::VerifyActivationSetRequest request;
  request.set_name("activationSets/a");
  int messages = 0;
  const absl::Status status = client->Stream(&v1::ActivationService::Stub::VerifyActivationSet,
                                             request, [&](const v1::VerifyActivationSetResponse&) {
                                               ++messages;
                                               return absl::DataLossError("enough");
                                             });
  EXPECT_EQ(status, absl::DataLossError("enough"));
  EXPECT_EQ(messages, 1);
}

TEST(ClientTest, KeepConnectedReportsAServerThatNeverAnsweredAtOnce) {
  const auto client = Connect("127.0.0.1:1");
  int tries = 0;
  const absl::Status status = client->KeepConnected(
      [&](bool&) {
        ++tries;
        return ConnectionError("refused");
      },
      nullptr);
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(tries, 1);
}

TEST(ClientTest, KeepConnectedPausesLongerAndLongerAndGivesUpAfterTheOutage) {
  FakeServer server;
  server.jobs.jobs["jobs/a"].set_name("jobs/a");
  const auto client = Connect(server.address());
  ASSERT_TRUE(client->Call(&v1::JobService::Stub::GetJob, GetJob("jobs/a")).ok());
  int tries = 0;
  std::vector<int64_t> pauses_ms;
  const absl::Status status = client->KeepConnected(
      [&](bool& received) {
        received = ++tries == 3;  // Something arrives on the third try: the count begins anew.
        return ConnectionError("broken");
      },
      [&](const absl::Status&, absl::Duration pause) {
        pauses_ms.push_back(absl::ToInt64Milliseconds(pause));
      });
  EXPECT_TRUE(absl::IsUnavailable(status));
  ASSERT_GT(pauses_ms.size(), 6);
  pauses_ms.resize(6);
  EXPECT_THAT(pauses_ms, ElementsAre(5, 10, 5, 10, 20, 20));
}

TEST(ClientTest, CancelEndsACallUnderWayAndAllLaterOnes) {
  FakeServer server;
  absl::Notification watching;
  server.jobs.watch = [](const v1::WatchJobRequest&,
                         grpc::ServerWriter<v1::WatchJobResponse>& writer) {
    v1::WatchJobResponse response;
    response.mutable_progress();
    while (writer.Write(response)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return grpc::Status::CANCELLED;
  };
  const auto client = Connect(server.address());
  std::thread canceller([&] {
    watching.WaitForNotification();
    client->Cancel();
  });
  const absl::Status status = client->Stream(&v1::JobService::Stub::WatchJob, v1::WatchJobRequest(),
                                             [&](const v1::WatchJobResponse&) {
                                               if (!watching.HasBeenNotified()) watching.Notify();
                                               return absl::OkStatus();
                                             });
  canceller.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_TRUE(
      absl::IsCancelled(client->Call(&v1::JobService::Stub::GetJob, GetJob("jobs/a")).status()));
  EXPECT_TRUE(absl::IsCancelled(
      client->KeepConnected([](bool&) { return ConnectionError("broken"); }, nullptr)));
}

}  // namespace
}  // namespace lorsa::client
