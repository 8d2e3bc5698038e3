// What a disk or a catalog that makes somebody wait does to everybody else: nothing.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "server/catalog/sqlite.h"
#include "server/services/job_services_test_fixture.h"

namespace lorsa::server {
namespace {

using testing::IsEmpty;

constexpr int kPublishers = 10;
// As in call_lanes.cc.
constexpr int kFileThreads = 8;
constexpr int kDownloadThreads = 8;
constexpr int kWriteThreads = 8;
constexpr absl::Duration kPatience = absl::Seconds(10);

class StallsTest : public JobServicesTest {
 protected:
  struct Session {
    std::string id;
    FakeWorker worker;
    std::unique_ptr<WorkerClient> client;
  };

  StallsTest() : JobServicesTest(kPublishers + 2) {}
  ~StallsTest() override { fs_.OpenGate(); }

  Session RunSession(const std::string& id) {
    Session session{.id = id};
    session.client = RunJob(id);
    session.worker = Launched();
    session.worker.attempt = {id, 1};
    return session;
  }
  std::vector<Session> RunSessions(int count) {
    std::vector<Session> sessions;
    for (int i = 0; i < count; ++i) sessions.push_back(RunSession(absl::StrCat("job", i)));
    return sessions;
  }

  static v1::WorkerMessage HeartbeatMessage(int64_t step) {
    v1::WorkerMessage message;
    message.mutable_heartbeat()->mutable_progress()->set_step(step);
    return message;
  }

  static bool Eventually(const std::function<bool()>& condition) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (!condition()) {
      if (absl::Now() > deadline) return false;
      absl::SleepFor(absl::Milliseconds(1));
    }
    return true;
  }
  static bool AwaitQueued(const Executor& lane, size_t count) {
    return Eventually([&] { return lane.queued() == count; });
  }

  // None if there was no answer within kPatience.
  std::optional<v1::Job> GetJob(const std::string& id) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
    v1::GetJobRequest request;
    request.set_name("jobs/" + id);
    v1::Job job;
    if (!jobs_->GetJob(&context, request, &job).ok()) return std::nullopt;
    return job;
  }
  // The best of some, since other programs may keep the machine busy.
  absl::Duration FastestGetJob(const std::string& id) {
    absl::Duration fastest = absl::InfiniteDuration();
    for (int i = 0; i < 20 && fastest > absl::Milliseconds(100); ++i) {
      const absl::Time start = absl::Now();
      if (!GetJob(id).has_value()) break;
      fastest = std::min(fastest, absl::Now() - start);
    }
    return fastest;
  }
  // Whether a heartbeat that the worker sends now shows.
  bool IsHeard(Session& session, int64_t step) {
    EXPECT_TRUE(session.client->Say(HeartbeatMessage(step)));
    return Eventually([&] {
      const std::optional<v1::Job> job = GetJob(session.id);
      return job.has_value() && job->progress().step() == step;
    });
  }
};

// Publications took turns under one mutex, on the threads of every other call: a disk that took 90
// s stopped the server, and workers whose heartbeats waited for a thread were killed as silent.
TEST_F(StallsTest, ADiskThatTakesMinutesHoldsUpNobodyButThosePublishing) {
  std::vector<Session> publishers = RunSessions(kPublishers);
  Session other = RunSession("other");
  std::vector<v1::WorkerMessage> messages(kPublishers);
  for (int i = 0; i < kPublishers; ++i) {
    *messages[i].mutable_checkpoint() = Stage(publishers[i].worker, 10);
  }
  fs_.CloseGate();
  for (int i = 0; i < kPublishers; ++i) EXPECT_TRUE(publishers[i].client->Say(messages[i]));
  EXPECT_TRUE(fs_.AwaitReaders(kFileThreads)) << "publications of several jobs run at once";
  EXPECT_TRUE(AwaitQueued(threads_.lanes().files, kPublishers - kFileThreads));
  EXPECT_LT(FastestGetJob("other"), absl::Milliseconds(100));
  EXPECT_TRUE(IsHeard(other, 7));
  for (int i = 0; i < 3; ++i) {
    Advance(absl::Seconds(30));
    EXPECT_TRUE(IsHeard(other, 8 + i));
    Poll();
  }
  EXPECT_THAT(launcher_.killed, IsEmpty());
  fs_.OpenGate();
  for (Session& publisher : publishers) {
    const v1::ServerMessage answer = publisher.client->Hear();
    ASSERT_TRUE(answer.has_checkpoint_published()) << publisher.id;
    EXPECT_EQ(answer.checkpoint_published().error(), "");
  }
}

// Four reads that hung, of logs or checkpoints, stopped uploads and GetServerInfo.
TEST_F(StallsTest, DownloadsThatWaitForTheDiskHoldUpNoOtherCall) {
  const Session session = RunSession("demo");
  ASSERT_TRUE(WriteFileAtomically(fs_, Layout().LogFile("demo", 1), "a line\n").ok());
  fs_.CloseGate();
  constexpr int kReaders = 12;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::ReadLogsResponse>>> readers;
  v1::ReadLogsRequest request;
  request.set_name("jobs/demo");
  for (int i = 0; i < kReaders; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    readers.push_back(jobs_->ReadLogs(contexts.back().get(), request));
  }
  EXPECT_TRUE(AwaitQueued(threads_.lanes().downloads, kReaders - kDownloadThreads));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
  context.AddMetadata("authorization", "Bearer " + session.worker.bootstrap.token());
  v1::GetStagedUploadRequest uploads;
  uploads.set_folder(CheckpointId(10));
  v1::Upload upload;
  const grpc::Status status =
      v1::WorkerService::NewStub(channel_)->GetStagedUpload(&context, uploads, &upload);
  EXPECT_TRUE(status.ok()) << status.error_message();
  fs_.OpenGate();
  for (auto& reader : readers) {
    std::string text;
    for (v1::ReadLogsResponse part; reader->Read(&part);) text += part.text();
    EXPECT_EQ(text, "a line\n");
    EXPECT_TRUE(reader->Finish().ok());
  }
}

// Writes waited for the lock on the threads of every other call.
TEST_F(StallsTest, ACatalogLockedElsewhereHoldsUpNoReadAndNoWorker) {
  std::vector<Session> sessions = RunSessions(4);
  auto elsewhere = Connection::OpenExisting(Layout().CatalogFile());
  ASSERT_TRUE(elsewhere.ok());
  ASSERT_TRUE((*elsewhere)->Execute("BEGIN IMMEDIATE").ok());
  std::vector<std::thread> writers;
  const absl::Cleanup join = [&] {
    for (std::thread& writer : writers) writer.join();
  };
  constexpr int kWriters = 20;
  for (int i = 0; i < kWriters; ++i) {
    writers.emplace_back([this] {
      grpc::ClientContext context;
      v1::PauseJobRequest request;
      request.set_name("jobs/job1");
      v1::Job job;
      jobs_->PauseJob(&context, request, &job);
    });
  }
  // These wait for the writer as well.
  for (int i = 1; i < 4; ++i) EXPECT_TRUE(sessions[i].client->Say(MetricsMessage(1, 1)));
  EXPECT_TRUE(AwaitQueued(threads_.lanes().writes, kWriters + 3 - kWriteThreads));
  EXPECT_LT(FastestGetJob("job0"), absl::Milliseconds(100));
  Advance(options_.silence_timeout + absl::Seconds(1));
  EXPECT_TRUE(IsHeard(sessions[0], 7));
  Poll();
  EXPECT_THAT(launcher_.killed, IsEmpty());
  EXPECT_TRUE((*elsewhere)->Execute("ROLLBACK").ok());
}

}  // namespace
}  // namespace lorsa::server
