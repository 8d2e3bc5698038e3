#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "client/cli/testing/cli_test_base.h"

namespace lorsa::cli {
namespace {

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;

class SweepCommandsTest : public CliTestBase {
 protected:
  SweepCommandsTest() {
    v1::Sweep& sweep = server_.jobs.sweeps["sweeps/grid"];
    sweep.set_name("sweeps/grid");
    sweep.add_parameters()->set_field("top_k");
    sweep.add_parameters()->set_field("selection");
    sweep.set_jobs(3);
    (*sweep.mutable_jobs_by_state())["SUCCEEDED"] = 2;
    (*sweep.mutable_jobs_by_state())["QUEUED"] = 1;
    AddJob(0, v1::JOB_STATE_SUCCEEDED, 0.5);
    AddJob(1, v1::JOB_STATE_QUEUED, 0).set_waiting_for("EARLIER_JOBS");
    AddJob(2, v1::JOB_STATE_SUCCEEDED, 0.25);
    server_.jobs.jobs["jobs/other"].set_name("jobs/other");
  }
  v1::Job& AddJob(int number, v1::JobState state, double fvu) {
    const std::string name = absl::StrCat("jobs/grid-00", number);
    v1::Job& job = server_.jobs.jobs[name];
    job.set_name(name);
    job.set_state(state);
    job.set_revision(3);
    job.set_sweep("sweeps/grid");
    job.mutable_spec()->mutable_training()->set_top_k(32 * (number + 1));
    job.mutable_spec()->mutable_training()->set_selection(v1::SELECTION_SIGNED);
    if (fvu > 0) job.set_best_fvu(fvu);
    return job;
  }
};

TEST_F(SweepCommandsTest, CreateSendsEachListOfValues) {
  EXPECT_EQ(Run({"sweep", "create", "--id", "new", "activation_set: 'set'", "--over", "top_k=32,64",
                 "--over", "learning_rate=1e-3,3e-3", "--label", "team=interp"}),
            0);
  EXPECT_EQ(out_.str(), "sweeps/new: 4 jobs are queued. Watch them with: lorsa sweep watch new\n");
  const v1::CreateSweepRequest& request = server_.jobs.created_sweeps.at(0);
  EXPECT_EQ(request.sweep_id(), "new");
  EXPECT_EQ(request.spec().activation_set(), "set");
  ASSERT_EQ(request.parameters_size(), 2);
  EXPECT_EQ(request.parameters(1).field(), "learning_rate");
  EXPECT_THAT(request.parameters(1).values(), ElementsAre("1e-3", "3e-3"));
  EXPECT_EQ(request.policy().labels().at("team"), "interp");
  EXPECT_EQ(request.request_id().size(), 32);
  EXPECT_EQ(Run({"sweep", "create", "--id", "NEW", "activation_set: 'set'", "--over", "top_k=1"}),
            kError);
  EXPECT_EQ(Run({"sweep", "create", "--id", "new", "activation_set: 'set'"}), kUsage);
}

TEST_F(SweepCommandsTest, ShowHasTheBestFirstAndWhatTheJobsDifferIn) {
  EXPECT_EQ(Run({"sweep", "show", "grid"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("sweeps/grid: QUEUED 1, SUCCEEDED 2\n"));
  EXPECT_THAT(out_.str(),
              ContainsRegex("\ngrid-002 +SUCCEEDED +100% +0.25 +96 +SELECTION_SIGNED *\n"
                            "grid-000 +SUCCEEDED +100% +0.5 +32 +SELECTION_SIGNED *\n"
                            "grid-001 +QUEUED +- +- +64 +SELECTION_SIGNED +EARLIER_JOBS\n"));
  EXPECT_THAT(out_.str(), testing::Not(HasSubstr("other")));
  EXPECT_EQ(Run({"sweep", "show", "gone"}), kError);
}

TEST_F(SweepCommandsTest, ListAndCancel) {
  server_.jobs.sweeps["sweeps/grid"].set_best_job("jobs/grid-002");
  server_.jobs.sweeps["sweeps/grid"].set_best_fvu(0.25);
  EXPECT_EQ(Run({"sweep", "list"}), 0);
  EXPECT_THAT(out_.str(), ContainsRegex("\ngrid +3 +QUEUED 1, SUCCEEDED 2 +0.25 +grid-002 "));
  EXPECT_EQ(Run({"sweep", "cancel", "grid"}), 0);
  EXPECT_EQ(out_.str(), "sweeps/grid: QUEUED 1, SUCCEEDED 2\n");
}

TEST_F(SweepCommandsTest, WatchEndsWithAllJobsAndSaysHow) {
  server_.jobs.jobs.at("jobs/grid-001").set_state(v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Run({"sweep", "watch", "grid"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("grid-002 is SUCCEEDED, FVU 0.25\n"));
  EXPECT_THAT(out_.str(), HasSubstr("JOB "));
  server_.jobs.jobs.at("jobs/grid-001").set_state(v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(Run({"sweep", "watch", "grid"}), kJobCancelled);
  server_.jobs.jobs.at("jobs/grid-000").set_state(v1::JOB_STATE_FAILED);
  EXPECT_EQ(Run({"sweep", "watch", "grid"}), kJobFailed);
}

}  // namespace
}  // namespace lorsa::cli
