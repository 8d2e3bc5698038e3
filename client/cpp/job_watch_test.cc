#include "lorsa/client/job_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/notification.h"
#include "client/cpp/testing/fake_services.h"

namespace lorsa::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Writer = grpc::ServerWriter<v1::WatchJobResponse>;

constexpr char kJob[] = "jobs/a";

// The history of a job that ran through.
const std::vector<v1::JobEvent>& History() {
  static const auto& history = *new std::vector<v1::JobEvent>{
      MakeEvent(1, v1::JOB_STATE_UNSPECIFIED, v1::JOB_STATE_QUEUED),
      MakeEvent(2, v1::JOB_STATE_QUEUED, v1::JOB_STATE_STARTING),
      MakeEvent(3, v1::JOB_STATE_STARTING, v1::JOB_STATE_RUNNING),
      MakeEvent(4, v1::JOB_STATE_RUNNING, v1::JOB_STATE_RUNNING, "checkpoint"),
      MakeEvent(5, v1::JOB_STATE_RUNNING, v1::JOB_STATE_SUCCEEDED),
  };
  return history;
}

void SendJob(Writer& writer, int64_t revision, v1::JobState state) {
  v1::WatchJobResponse response;
  response.mutable_job()->set_name(kJob);
  response.mutable_job()->set_revision(revision);
  response.mutable_job()->set_state(state);
  writer.Write(response);
}

// Events `first` to `last` by revision.
void SendEvents(Writer& writer, int first, int last) {
  for (int revision = first; revision <= last; ++revision) {
    v1::WatchJobResponse response;
    *response.mutable_event() = History()[revision - 1];
    writer.Write(response);
  }
}

class JobWatchTest : public testing::Test {
 protected:
  JobWatchTest() {
    client_ = *Client::Create({.server = server_.address(),
                               .initial_backoff = absl::Milliseconds(5),
                               .max_backoff = absl::Milliseconds(20),
                               .max_outage = absl::Seconds(20)});
    callbacks_.on_job = [this](const v1::Job&) { ++jobs_; };
    callbacks_.on_event = [this](const v1::JobEvent& e) { revisions_.push_back(e.revision()); };
    callbacks_.on_progress = [this](const v1::JobProgress&) { ++progresses_; };
    callbacks_.on_outage = [this](const absl::Status&, absl::Duration) { ++outages_; };
  }

  // Each connection is served by the next of `scripts`, the last one again and again.
  void Serve(std::vector<FakeJobService::Watch> scripts) {
    server_.jobs.watch = [this, scripts = std::move(scripts)](const v1::WatchJobRequest& request,
                                                              Writer& writer) {
      asked_after_.push_back(request.after_revision());
      return scripts[std::min(asked_after_.size(), scripts.size()) - 1](request, writer);
    };
  }

  FakeServer server_;
  std::unique_ptr<Client> client_;
  WatchCallbacks callbacks_;
  std::vector<int64_t> asked_after_;
  std::vector<int64_t> revisions_;
  int jobs_ = 0, progresses_ = 0, outages_ = 0;
};

TEST_F(JobWatchTest, AWatchEndsWithTheFinalEvent) {
  Serve({[](const auto&, Writer& writer) {
    SendJob(writer, 5, v1::JOB_STATE_SUCCEEDED);
    SendEvents(writer, 1, 5);
    return grpc::Status::OK;
  }});
  const auto state = WatchJob(*client_, kJob, 0, callbacks_);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(*state, v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(revisions_, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(outages_, 0);
}

TEST_F(JobWatchTest, AWatchAfterTheLastEventOfAnEndedJobReturnsAtOnce) {
  Serve({[](const auto&, Writer& writer) {
    SendJob(writer, 5, v1::JOB_STATE_FAILED);
    return grpc::Status::OK;
  }});
  const auto state = WatchJob(*client_, kJob, 5, callbacks_);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(*state, v1::JOB_STATE_FAILED);
}

TEST_F(JobWatchTest, ABrokenStreamIsResumedAfterTheLastEventWithoutDuplicates) {
  Serve({[](const auto&, Writer& writer) {
           SendJob(writer, 2, v1::JOB_STATE_STARTING);
           SendEvents(writer, 1, 2);
           return grpc::Status(grpc::StatusCode::UNAVAILABLE, "cut");
         },
         [](const auto&, Writer&) { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "cut"); },
         [](const auto&, Writer& writer) {  // Sends what the client has seen once more.
           SendJob(writer, 5, v1::JOB_STATE_SUCCEEDED);
           SendEvents(writer, 1, 5);
           return grpc::Status::OK;
         }});
  ASSERT_TRUE(WatchJob(*client_, kJob, 0, callbacks_).ok());
  EXPECT_THAT(asked_after_, ElementsAre(0, 2, 2));
  EXPECT_THAT(revisions_, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(jobs_, 2);
  EXPECT_EQ(outages_, 2);
}

TEST_F(JobWatchTest, AServerThatRestartsOnTheSamePortIsFoundAgain) {
  absl::Notification second_event;
  callbacks_.on_progress = [&](const v1::JobProgress&) {
    if (!second_event.HasBeenNotified()) second_event.Notify();
  };
  Serve({[](const auto&, Writer& writer) {
           SendJob(writer, 2, v1::JOB_STATE_STARTING);
           SendEvents(writer, 1, 2);
           v1::WatchJobResponse response;
           response.mutable_progress();
           while (writer.Write(response)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
           return grpc::Status::CANCELLED;
         },
         [](const auto&, Writer& writer) {
           SendJob(writer, 5, v1::JOB_STATE_SUCCEEDED);
           SendEvents(writer, 3, 5);
           return grpc::Status::OK;
         }});
  std::thread restart([&] {
    second_event.WaitForNotification();
    server_.Stop();
    server_.Start();
  });
  const auto state = WatchJob(*client_, kJob, 0, callbacks_);
  restart.join();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_THAT(revisions_, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(asked_after_.back(), 2);
  EXPECT_GE(outages_, 1);
}

TEST_F(JobWatchTest, AStreamThatEndsBeforeTheJobIsConnectedAgain) {
  Serve({[](const auto&, Writer& writer) {
           SendJob(writer, 3, v1::JOB_STATE_RUNNING);
           SendEvents(writer, 1, 3);
           return grpc::Status::OK;
         },
         [](const auto&, Writer& writer) {
           SendJob(writer, 5, v1::JOB_STATE_SUCCEEDED);
           SendEvents(writer, 4, 5);
           return grpc::Status::OK;
         }});
  ASSERT_TRUE(WatchJob(*client_, kJob, 0, callbacks_).ok());
  EXPECT_THAT(revisions_, ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(JobWatchTest, AConnectionThatBreaksAfterTheFinalEventDoesNotMatter) {
  Serve({[](const auto&, Writer& writer) {
    SendJob(writer, 5, v1::JOB_STATE_SUCCEEDED);
    SendEvents(writer, 1, 5);
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "cut");
  }});
  ASSERT_TRUE(WatchJob(*client_, kJob, 0, callbacks_).ok());
  EXPECT_EQ(outages_, 0);
}

TEST_F(JobWatchTest, EventsLeftOutAreAnError) {
  Serve({[](const auto&, Writer& writer) {
    SendJob(writer, 5, v1::JOB_STATE_SUCCEEDED);
    SendEvents(writer, 1, 2);
    SendEvents(writer, 4, 5);
    return grpc::Status::OK;
  }});
  const auto state = WatchJob(*client_, kJob, 0, callbacks_);
  EXPECT_TRUE(absl::IsDataLoss(state.status()));
  EXPECT_THAT(std::string(state.status().message()), HasSubstr("events 3 to 3 of jobs/a"));
}

TEST_F(JobWatchTest, AnUnknownJobIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(WatchJob(*client_, kJob, 0, callbacks_).status()));
}

}  // namespace
}  // namespace lorsa::client
