#include "client/cli/app.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "client/cli/testing/cli_test_base.h"
#include "client/cpp/testing/progress_values.h"

namespace lorsa::cli {
namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class AppTest : public CliTestBase {
 protected:
  v1::Job& AddJob(const std::string& id, v1::JobState state) {
    v1::Job& job = server_.jobs.jobs["jobs/" + id];
    job.set_name("jobs/" + id);
    job.set_state(state);
    job.mutable_spec()->mutable_training()->set_activation_set("smollm2-l12");
    return job;
  }
  // Each line of the output, parsed.
  std::vector<json> JsonLines() {
    std::vector<json> lines;
    std::istringstream stream(out_.str());
    for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
    return lines;
  }
};

TEST_F(AppTest, HelpAndVersionSucceedAndWrongUsageIsTwo) {
  EXPECT_EQ(Run({"--version"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("lorsa 0."));
  const std::vector<std::vector<std::string>> commands = {
      {},
      {"info"},
      {"set"},
      {"set", "register"},
      {"set", "list"},
      {"set", "show"},
      {"set", "verify"},
      {"job"},
      {"job", "submit"},
      {"job", "list"},
      {"job", "show"},
      {"job", "watch"},
      {"job", "logs"},
      {"job", "pause"},
      {"job", "resume"},
      {"job", "cancel"},
      {"job", "fork"},
      {"job", "retry"},
      {"job", "delete"},
      {"job", "metrics"},
      {"sweep"},
      {"sweep", "create"},
      {"sweep", "list"},
      {"sweep", "show"},
      {"sweep", "watch"},
      {"sweep", "cancel"},
      {"checkpoint"},
      {"checkpoint", "list"},
      {"checkpoint", "download"},
  };
  for (std::vector<std::string> command : commands) {
    command.push_back("--help");
    EXPECT_EQ(Run(command), 0);
    EXPECT_THAT(out_.str(), HasSubstr("Example: lorsa ")) << testing::PrintToString(command);
  }
  EXPECT_EQ(Run({}), kUsage);
  EXPECT_EQ(Run({"job"}), kUsage);
  EXPECT_EQ(Run({"job", "show"}), kUsage);
  EXPECT_EQ(Run({"job", "metrics", "a", "--kind", "other"}), kUsage);
  EXPECT_EQ(Run({"--server", "nowhere", "info"}), kUsage);
  EXPECT_THAT(err_.str(), HasSubstr("HOST:PORT"));
}

TEST_F(AppTest, TheServerComesFromTheEnvironmentUnlessItIsNamed) {
  ASSERT_EQ(setenv("LORSA_SERVER", "from-the-environment", 1), 0);
  EXPECT_EQ(Run({"info"}), 0);
  Environment env{.out = {.stream = out_},
                  .err = {.stream = err_},
                  .in = in_,
                  .fs = fs_,
                  .now = absl::Now,
                  .random = [] { return uint64_t{0}; },
                  .on_interrupt = [](const std::function<void()>&) {}};
  EXPECT_EQ(RunLorsa({"info"}, env), kUsage);
  unsetenv("LORSA_SERVER");
  EXPECT_THAT(err_.str(), HasSubstr("server 'from-the-environment'"));
}

TEST_F(AppTest, AServerThatIsNotThereIsOneSentenceWithTheRemedy) {
  server_.Stop();
  EXPECT_EQ(Run({"info"}), kError);
  EXPECT_EQ(err_.str(), "lorsa: No lorsad answers at " + server_.address() +
                            ": start one with `lorsad`, or name another with --server.\n");
  EXPECT_EQ(out_.str(), "");
}

TEST_F(AppTest, InfoShowsTheServer) {
  server_.info.info.set_version("0.1.0");
  server_.info.info.set_cpu_cores(2);
  server_.info.info.add_activation_roots("/data");
  EXPECT_EQ(Run({"info"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("version           0.1.0\n"));
  EXPECT_EQ(Run({"info", "--json"}), 0);
  EXPECT_EQ(JsonLines().at(0)["cpu_cores"], 2);
  EXPECT_EQ(JsonLines().at(0)["running_jobs"], 0);  // Present although it has no value.
}

TEST_F(AppTest, ASetShowsItsOutlierTargets) {
  EXPECT_EQ(Run({"set", "register", "a", "/data/x"}), 0);
  EXPECT_THAT(out_.str(), Not(HasSubstr("warning")));
  v1::OutlierTargets& outliers =
      *server_.sets.sets.at("activationSets/a").mutable_outlier_targets();
  outliers.set_count(12);
  v1::OutlierTarget& largest = *outliers.add_largest();
  largest.set_sequence(17);
  largest.set_position(4);
  largest.set_norm(108);
  EXPECT_EQ(Run({"set", "show", "a"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("12 targets above 10 times the mean norm: sequence 17 "
                                    "position 4 (norm 108), …\n"));
}

TEST_F(AppTest, SetsAreRegisteredListedShownAndVerified) {
  EXPECT_EQ(Run({"set", "register", "smollm2-l12", "/data/x"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("set          smollm2-l12\nfolder       /data/x\n"));
  EXPECT_THAT(err_.str(), HasSubstr("0%  0 B of 100 B\n"));
  EXPECT_EQ(Run({"set", "list"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("smollm2-l12"));
  EXPECT_EQ(Run({"set", "show", "activationSets/smollm2-l12", "--json"}), 0);
  EXPECT_EQ(JsonLines().at(0)["path"], "/data/x");

  server_.sets.report.set_ok(true);
  server_.sets.report.set_sequences_checked(1562);
  EXPECT_EQ(Run({"set", "verify", "smollm2-l12"}), 0);
  EXPECT_EQ(out_.str(), "smollm2-l12 is intact: 1,562 sequences checked.\n");
  server_.sets.report.set_ok(false);
  server_.sets.report.add_problems("shard-00000.h5: truncated\x1b[2J");
  EXPECT_EQ(Run({"set", "verify", "smollm2-l12"}), kError);
  EXPECT_EQ(out_.str(), "smollm2-l12 is damaged:\n  shard-00000.h5: truncated?[2J\n");
}

TEST_F(AppTest, ASetIsUploadedQuarantinedAndDeleted) {
  ASSERT_TRUE(WriteFileAtomically(fs_, folder_ + "/shard-00000.h5", "shard").ok());
  EXPECT_EQ(Run({"set", "upload", "up", folder_}), 0) << err_.str();
  EXPECT_EQ(server_.sets.uploaded["shard-00000.h5"], "shard");
  EXPECT_THAT(out_.str(), HasSubstr("set          up\n"));
  EXPECT_EQ(server_.sets.sets["activationSets/up"].path(), "") << "what was uploaded";
  EXPECT_EQ(Run({"set", "upload", "up", folder_ + "/none"}), kError);
  EXPECT_THAT(err_.str(), HasSubstr("none"));

  EXPECT_EQ(Run({"set", "quarantine", "up"}), kUsage);
  EXPECT_EQ(Run({"set", "quarantine", "up", "--reason", "the disk clicks"}), 0);
  EXPECT_EQ(Run({"set", "show", "up"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("QUARANTINED\n"));
  EXPECT_THAT(out_.str(), HasSubstr("the disk clicks\n"));
  EXPECT_EQ(Run({"set", "delete", "up"}), 0);
  EXPECT_EQ(out_.str(), "up is deleted.\n");
  EXPECT_EQ(Run({"set", "delete", "up"}), kError);
}

TEST_F(AppTest, CheckpointsAreImportedAndDeleted) {
  EXPECT_EQ(Run({"checkpoint", "import", "converted", "/data/step-000000000"}), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("jobs/converted/checkpoints/step-000000000 is imported"));
  EXPECT_EQ(Run({"checkpoint", "delete", "converted@0"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "jobs/converted/checkpoints/step-000000000 is deleted.\n");
  EXPECT_EQ(Run({"checkpoint", "delete", "converted@0"}), kError);
  EXPECT_EQ(Run({"checkpoint", "import", "../x", "/data/step-000000000"}), kError);
}

TEST_F(AppTest, InfoShowsWhatIsWrong) {
  v1::ServerCondition& condition = *server_.info.info.add_conditions();
  condition.set_reason("DISK_RESERVE");
  condition.set_message("make room\x1b[2J");
  EXPECT_EQ(Run({"info"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("DISK_RESERVE since "));
  EXPECT_THAT(out_.str(), HasSubstr("make room?[2J\n"));
}

TEST_F(AppTest, ARegistrationThatIsRefusedGivesTheServersSentence) {
  server_.sets.register_error =
      client::DetailedError(grpc::StatusCode::PERMISSION_DENIED,
                            "/etc is outside the activation roots: start lorsad with "
                            "--activation-root /etc",
                            "OUTSIDE_ROOTS");
  EXPECT_EQ(Run({"set", "register", "a", "/etc"}), kError);
  EXPECT_EQ(err_.str(),
            "lorsa: /etc is outside the activation roots: start lorsad with --activation-root "
            "/etc\n");
}

TEST_F(AppTest, AnUnknownOrImpossibleIdIsAnError) {
  EXPECT_EQ(Run({"job", "show", "nothing"}), kError);
  EXPECT_EQ(err_.str(), "lorsa: there is no jobs/nothing\n");
  EXPECT_EQ(Run({"job", "show", "../x"}), kError);
  EXPECT_THAT(err_.str(), HasSubstr("not of the form jobs/ID"));
}

TEST_F(AppTest, ListFollowsThePagesUpToTheLimitAndFiltersByState) {
  for (const char* id : {"a", "b", "c", "d", "e"}) AddJob(id, v1::JOB_STATE_RUNNING);
  AddJob("f", v1::JOB_STATE_FAILED);
  EXPECT_EQ(Run({"job", "list", "--json"}), 0);
  EXPECT_EQ(JsonLines().size(), 6);
  EXPECT_EQ(Run({"job", "list", "--json", "--limit", "3"}), 0);
  EXPECT_EQ(JsonLines().size(), 3);
  EXPECT_EQ(Run({"job", "list", "--state", "failed"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("\nf    FAILED"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("RUNNING")));
  EXPECT_EQ(Run({"job", "list", "--state", "lost"}), kError);
  EXPECT_THAT(err_.str(), HasSubstr("'lost' is no state of a job"));
}

// A job without a worker has no progress, which was shown as 0 % and 0 tokens, even of one that
// had succeeded.
TEST_F(AppTest, ListShowsNoProgressWhereThereIsNone) {
  AddJob("queued", v1::JOB_STATE_QUEUED);
  AddJob("done", v1::JOB_STATE_SUCCEEDED)
      .mutable_resolved_spec()
      ->mutable_training()
      ->set_tokens(204'800);
  v1::JobProgress& progress = *AddJob("runs", v1::JOB_STATE_RUNNING).mutable_progress();
  progress.set_step(45);
  progress.set_total_steps(100);
  client::AddProgressValues(
      progress, {{"tokens", 92'160}, {"total_tokens", 204'800}, {"loss", 0.5}, {"fvu", 0.25}});
  EXPECT_EQ(Run({"job", "list"}), 0);
  EXPECT_THAT(out_.str(), ContainsRegex("\nqueued +QUEUED +- +- +- +- "));
  EXPECT_THAT(out_.str(), ContainsRegex("\ndone +SUCCEEDED +100% +204,800 +- +- "));
  EXPECT_THAT(out_.str(), ContainsRegex("\nruns +RUNNING +45% +92,160 +0.5 +0.25 "));
}

TEST_F(AppTest, UpdateNamesTheSettingsThatWereGiven) {
  EXPECT_EQ(Run({"job", "update", "a", "--priority", "9", "--label", "team=b", "--clear", "ttl"}),
            0);
  EXPECT_EQ(out_.str(), "jobs/a is updated.\n");
  const v1::UpdateJobRequest& sent = server_.jobs.updated.at(0);
  EXPECT_EQ(sent.job().name(), "jobs/a");
  EXPECT_EQ(sent.job().policy().priority(), 9);
  EXPECT_EQ(sent.job().policy().labels().at("team"), "b");
  EXPECT_THAT(sent.update_mask().paths(),
              testing::ElementsAre("policy.labels", "policy.priority", "policy.ttl"));
  EXPECT_NE(Run({"job", "update", "a"}), 0);
  EXPECT_THAT(err_.str(), HasSubstr("nothing to change"));
  EXPECT_EQ(server_.jobs.updated.size(), 1);
}

TEST_F(AppTest, ShowPauseResumeAndCancel) {
  v1::Job& job = AddJob("a", v1::JOB_STATE_RUNNING);
  job.mutable_progress()->set_step(45);
  job.mutable_progress()->set_total_steps(100);
  client::AddProgressValues(*job.mutable_progress(),
                            {{"tokens", 92'160}, {"total_tokens", 204'800}, {"loss", 0}});
  job.set_message("line\nbreak");
  EXPECT_EQ(Run({"job", "show", "a"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("state          RUNNING\n"));
  EXPECT_THAT(out_.str(), HasSubstr("progress       45%  92.2k/205k tok  loss 0"));
  EXPECT_EQ(Run({"job", "pause", "a"}), 0);
  EXPECT_EQ(out_.str(), "jobs/a is PAUSING.\n");
  EXPECT_EQ(Run({"job", "resume", "a"}), 0);
  EXPECT_EQ(out_.str(), "jobs/a is QUEUED.\n");
  EXPECT_EQ(Run({"job", "cancel", "a", "--json"}), 0);
  EXPECT_EQ(JsonLines().at(0)["state"], "JOB_STATE_CANCELLING");
}

TEST_F(AppTest, ListFiltersByLabelAndSaysWhyAJobWaits) {
  v1::Job& job = AddJob("a", v1::JOB_STATE_QUEUED);
  (*job.mutable_policy()->mutable_labels())["team"] = "interp";
  job.set_waiting_for("CPU_SLOTS");
  AddJob("b", v1::JOB_STATE_FAILED).set_reason("DEADLINE");
  EXPECT_EQ(Run({"job", "list", "--label", "team=interp"}), 0);
  EXPECT_THAT(out_.str(), ContainsRegex("\na +QUEUED .* CPU_SLOTS\n"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("\nb ")));
  EXPECT_EQ(Run({"job", "list"}), 0);
  EXPECT_THAT(out_.str(), ContainsRegex("\nb +FAILED .* DEADLINE\n"));
}

TEST_F(AppTest, ShowTellsThePolicyAndTheLastLinesOfTheLog) {
  v1::Job& job = AddJob("a", v1::JOB_STATE_FAILED);
  job.mutable_policy()->set_priority(5);
  (*job.mutable_policy()->mutable_labels())["team"] = "interp";
  (*job.mutable_policy()->mutable_labels())["layer"] = "12";
  job.set_log_tail("loading\nout of \x1bmemory");
  EXPECT_EQ(Run({"job", "show", "a"}), 0);
  EXPECT_THAT(out_.str(), ContainsRegex("\npriority +5\n"));
  EXPECT_THAT(out_.str(), ContainsRegex("\nlabels +layer=12, team=interp\n"));
  EXPECT_THAT(out_.str(), HasSubstr("loading\nout of ?memory\n"));
}

TEST_F(AppTest, ForkNamesCheckpointAndChanges) {
  EXPECT_EQ(Run({"job", "fork", "a@latest", "tokens: 100", "--id", "b", "--priority", "2"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("jobs/b is queued."));
  ASSERT_EQ(server_.jobs.forked.size(), 1);
  const v1::ForkJobRequest& request = server_.jobs.forked[0];
  EXPECT_EQ(request.checkpoint(), "jobs/a/checkpoints/latest");
  EXPECT_EQ(request.changes().tokens(), 100);
  EXPECT_EQ(request.policy().priority(), 2);
  EXPECT_EQ(request.request_id().size(), 32);
  EXPECT_EQ(Run({"job", "fork", "a"}), 0);
  EXPECT_EQ(server_.jobs.forked[1].checkpoint(), "jobs/a/checkpoints/best");
  EXPECT_EQ(server_.jobs.forked[1].job_id().substr(0, 2), "a-");
}

TEST_F(AppTest, RetryAndDelete) {
  AddJob("a", v1::JOB_STATE_FAILED);
  EXPECT_EQ(Run({"job", "retry", "a"}), 0);
  EXPECT_EQ(out_.str(), "jobs/a is QUEUED.\n");
  EXPECT_EQ(Run({"job", "delete", "a", "--force"}), 0);
  EXPECT_EQ(out_.str(), "jobs/a is deleted.\n");
  EXPECT_TRUE(server_.jobs.deleted.at(0).force());
  EXPECT_EQ(Run({"job", "delete", "b"}), kError);
}

TEST_F(AppTest, LogsNameTheAttemptsAndDoNotSteerATerminal) {
  AddJob("a", v1::JOB_STATE_RUNNING);
  for (const int attempt : {1, 1, 2}) {
    v1::ReadLogsResponse log;
    log.set_attempt(attempt);
    log.set_text("\x1b[2Jhello\n");
    server_.jobs.logs.push_back(log);
  }
  EXPECT_EQ(Run({"job", "logs", "a"}), 0);
  EXPECT_EQ(out_.str(),
            "==> attempt 1 <==\n\x1b[2Jhello\n\x1b[2Jhello\n==> attempt 2 <==\n\x1b[2Jhello\n");
  terminal_ = true;
  EXPECT_EQ(Run({"job", "logs", "a"}), 0);
  EXPECT_THAT(out_.str(), Not(HasSubstr("\x1b")));
}

TEST_F(AppTest, MetricsAreATableOrJsonLines) {
  for (int i = 0; i < 5; ++i) {
    v1::MetricPoint point;
    point.set_kind(v1::METRIC_KIND_EVALUATION);
    point.set_step(i * 10);
    point.set_tokens(i * 20'480);
    (*point.mutable_values())["fvu"] = 0.5 / (i + 1);
    if (i > 0) (*point.mutable_values())["l0"] = 64;
    server_.metrics.points.push_back(point);
  }
  EXPECT_EQ(Run({"job", "metrics", "a"}), 0);
  EXPECT_EQ(out_.str(),
            "STEP  TOKENS     fvu  l0\n"
            "   0       0     0.5   -\n"
            "  10  20,480    0.25  64\n"
            "  20  40,960  0.1667  64\n"
            "  30  61,440   0.125  64\n"
            "  40  81,920     0.1  64\n");
  EXPECT_EQ(Run({"job", "metrics", "a", "--json", "--from-step", "10", "--limit", "3"}), 0);
  ASSERT_EQ(JsonLines().size(), 3);
  EXPECT_EQ(JsonLines().at(2)["step"], "30");
  EXPECT_EQ(Run({"job", "metrics", "a", "--kind", "training", "--json"}), 0);
  EXPECT_EQ(out_.str(), "");
}

TEST_F(AppTest, CheckpointsAreListedAndDownloaded) {
  v1::Checkpoint& checkpoint = server_.checkpoints.Add(
      "jobs/a/checkpoints/step-000001000", {{"config.json", "{}"}, {"lorsa.safetensors", "abc"}});
  checkpoint.set_step(1000);
  checkpoint.set_fvu(0.2814);
  checkpoint.set_best(true);
  server_.checkpoints.checkpoints["jobs/a/checkpoints/best"] = checkpoint;
  EXPECT_EQ(Run({"checkpoint", "list", "a"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("step-000001000  1,000       0  0.2814   5 B"));

  const std::string out = folder_ + "/out";
  EXPECT_EQ(Run({"checkpoint", "download", "a", "--out", out}), 0);
  EXPECT_EQ(out_.str(), "jobs/a/checkpoints/step-000001000 is in " + out +
                            ": 2 files, 5 B, sha256 verified.\n");
  EXPECT_EQ(*ReadFile(fs_, out + "/lorsa.safetensors", 100), "abc");
  EXPECT_EQ(Run({"checkpoint", "download", "a@1000", "--out", out, "--json"}), 0);
  EXPECT_EQ(JsonLines().at(0)["name"], "jobs/a/checkpoints/step-000001000");
  EXPECT_EQ(Run({"checkpoint", "download", "a@latest", "--out", out}), kError);
  EXPECT_EQ(err_.str(), "lorsa: there is no jobs/a/checkpoints/latest\n");
}

}  // namespace
}  // namespace lorsa::cli
