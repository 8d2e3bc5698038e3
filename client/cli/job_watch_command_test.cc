#include "client/cli/job_watch_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "client/cli/testing/cli_test_base.h"
#include "client/cpp/testing/progress_values.h"

namespace lorsa::cli {
namespace {

using testing::HasSubstr;
using Writer = grpc::ServerWriter<v1::WatchJobResponse>;

class JobWatchCommandTest : public CliTestBase {
 protected:
  // A job that runs, is evaluated twice, and ends in `end`.
  void Serve(v1::JobState end, const std::string& message = "") {
    for (const int step : {0, 50}) {
      v1::MetricPoint point;
      point.set_kind(v1::METRIC_KIND_EVALUATION);
      point.set_sequence(step + 1);
      point.set_step(step);
      point.set_tokens(step * 2048);
      point.mutable_time()->set_seconds(1'796'000'000 + step);
      (*point.mutable_values())["fvu"] = step == 0 ? 0.62 : 0.25;
      server_.metrics.points.push_back(point);
    }
    server_.jobs.watch = [end, message](const v1::WatchJobRequest&, Writer& writer) {
      v1::WatchJobResponse response;
      response.mutable_job()->set_name("jobs/a");
      response.mutable_job()->set_revision(1);
      writer.Write(response);
      SendEvent(writer, client::MakeEvent(1, v1::JOB_STATE_UNSPECIFIED, v1::JOB_STATE_QUEUED));
      SendEvent(writer, client::MakeEvent(2, v1::JOB_STATE_QUEUED, v1::JOB_STATE_STARTING));
      SendProgress(writer);
      SendEvent(writer, client::MakeEvent(3, v1::JOB_STATE_STARTING, end, message));
      return grpc::Status::OK;
    };
  }
  static void SendEvent(Writer& writer, const v1::JobEvent& event) {
    v1::WatchJobResponse response;
    *response.mutable_event() = event;
    writer.Write(response);
  }
  static void SendProgress(Writer& writer) {
    v1::WatchJobResponse response;
    v1::JobProgress& progress = *response.mutable_progress();
    progress.set_step(45);
    progress.set_total_steps(100);
    client::AddProgressValues(progress, {{"tokens", 92'160},
                                         {"total_tokens", 204'800},
                                         {"tokens_per_second", 1030},
                                         {"loss", 123.4},
                                         {"l0", 63.9}});
    writer.Write(response);
  }
};

TEST_F(JobWatchCommandTest, APipeGetsPlainLines) {
  Serve(v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Run({"job", "watch", "a"}), 0);
  EXPECT_EQ(out_.str(),
            "2026-11-29 23:13:21Z  QUEUED\n"
            "2026-11-29 23:13:22Z  QUEUED -> STARTING\n"
            "45%  92.2k/205k tok  loss 123  L0 63.9  1.03k/s  1m49s left\n"
            "2026-11-30 00:53:20Z  EVALUATION  step 0  tokens 0  fvu 0.62\n"
            "2026-11-30 00:54:10Z  EVALUATION  step 50  tokens 102k  fvu 0.25\n"
            "2026-11-29 23:13:23Z  STARTING -> SUCCEEDED\n"
            "Fetch the best checkpoint with: lorsa checkpoint download a --out a\n");
  EXPECT_EQ(err_.str(), "");
}

TEST_F(JobWatchCommandTest, ATerminalGetsABarWithTheEventsAboveIt) {
  terminal_ = true;
  Serve(v1::JOB_STATE_FAILED, "NaN in the activations");
  EXPECT_EQ(Run({"job", "watch", "a"}), kJobFailed);
  EXPECT_THAT(out_.str(), HasSubstr("QUEUED -> STARTING\n\r\x1b[K 45% ["));
  EXPECT_THAT(out_.str(), HasSubstr("\r\x1b[K2026-11-29 23:13:23Z  STARTING -> FAILED  NaN in the "
                                    "activations\n\r\x1b[K 45% ["));
  EXPECT_THAT(out_.str(), testing::EndsWith("\r\x1b[KSee what the worker said with: lorsa job "
                                            "logs a\n"));
}

TEST_F(JobWatchCommandTest, TheExitCodeSaysHowTheJobEnded) {
  Serve(v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(Run({"job", "watch", "a"}), kJobCancelled);
  EXPECT_EQ(kJobFailed, 3);
  EXPECT_EQ(kJobCancelled, 4);
}

TEST_F(JobWatchCommandTest, JsonIsWhatTheServerSendsOneMessageALine) {
  Serve(v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Run({"job", "watch", "a", "--json"}), 0);
  std::istringstream lines(out_.str());
  std::vector<std::string> keys;
  for (std::string line; std::getline(lines, line);) {
    keys.push_back(nlohmann::json::parse(line).begin().key());
  }
  EXPECT_THAT(keys, testing::ElementsAre("job", "event", "event", "progress", "event"));
}

TEST_F(JobWatchCommandTest, SubmitWithWatchGoesOnToTheEnd) {
  Serve(v1::JOB_STATE_FAILED);
  EXPECT_EQ(Run({"job", "submit", "--id", "a", "activation_set: \"s\"", "--watch"}), kJobFailed);
  EXPECT_EQ(out_.str().find("jobs/a is queued.\n2026-11-29"), 0);
}

TEST_F(JobWatchCommandTest, CtrlCLeavesTheJobAloneAndSaysHowToWatchAgain) {
  server_.jobs.watch = [this](const v1::WatchJobRequest&, Writer& writer) {
    SendEvent(writer, client::MakeEvent(1, v1::JOB_STATE_UNSPECIFIED, v1::JOB_STATE_QUEUED));
    interrupt_();
    while (true) {  // Until the client's cancellation arrives.
      v1::WatchJobResponse response;
      response.mutable_progress();
      if (!writer.Write(response)) return grpc::Status::CANCELLED;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  EXPECT_EQ(Run({"job", "watch", "a"}), kInterrupted);
  EXPECT_EQ(err_.str(), "jobs/a goes on. Watch it again with: lorsa job watch a\n");
}

TEST_F(JobWatchCommandTest, ALostConnectionIsSaidOnce) {
  int connections = 0;
  server_.jobs.watch = [&connections](const v1::WatchJobRequest& request, Writer& writer) {
    v1::WatchJobResponse response;
    response.mutable_job()->set_revision(1);
    if (++connections == 2) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "cut");
    writer.Write(response);
    if (request.after_revision() == 0) {
      SendEvent(writer, client::MakeEvent(1, v1::JOB_STATE_UNSPECIFIED, v1::JOB_STATE_QUEUED));
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "cut");
    }
    SendEvent(writer, client::MakeEvent(2, v1::JOB_STATE_QUEUED, v1::JOB_STATE_CANCELLED));
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run({"job", "watch", "a"}), kJobCancelled);
  EXPECT_EQ(out_.str(),
            "2026-11-29 23:13:21Z  QUEUED\n"
            "Connection lost, trying again: cut\n"
            "Connected again.\n"
            "2026-11-29 23:13:22Z  QUEUED -> CANCELLED\n");
}

}  // namespace
}  // namespace lorsa::cli
