#include "client/cli/job_fork.h"

#include <memory>
#include <string>
#include <vector>

#include "base/identifiers.h"
#include "base/status_macros.h"
#include "client/cli/checkpoint_name.h"
#include "client/cli/job_submit.h"
#include "client/cli/policy_options.h"
#include "job_spec/spec_text.h"

namespace lorsa::cli {
namespace {

struct ForkOptions {
  std::string checkpoint;
  std::vector<std::string> changes;
  NewJobOptions job;
};

absl::StatusOr<v1::ForkJobRequest> MakeRequest(Session& session, const ForkOptions& options) {
  v1::ForkJobRequest request;
  LORSA_ASSIGN_OR_RETURN(*request.mutable_checkpoint(), CheckpointName(options.checkpoint));
  if (!options.changes.empty()) {
    LORSA_ASSIGN_OR_RETURN(const SpecText text,
                           ReadSpecText(options.changes, session.env.in, session.env.fs));
    LORSA_ASSIGN_OR_RETURN(*request.mutable_changes(), ParseSpec(text));
  }
  const std::string source =
      request.checkpoint().substr(5, request.checkpoint().find('/', 5) - 5);  // jobs/SOURCE/…
  LORSA_RETURN_IF_ERROR(FillNewJob(session, options.job, source, request));
  return request;
}

absl::StatusOr<int> Fork(Session& session, const ForkOptions& options) {
  LORSA_ASSIGN_OR_RETURN(const v1::ForkJobRequest request, MakeRequest(session, options));
  LORSA_ASSIGN_OR_RETURN(const v1::Job job,
                         session.client.Call(&v1::JobService::Stub::ForkJob, request));
  return ShowNewJob(session, options.job, job);
}

}  // namespace

void AddForkCommand(CLI::App& job, Action* chosen) {
  const auto options = std::make_shared<ForkOptions>();
  CLI::App& fork = AddCommand(
      job, "fork",
      "Queue a job that goes on from a checkpoint of another one, with some fields changed. Its "
      "tokens count those of the checkpoint too.",
      "lorsa job fork demo@latest 'tokens: 1600000000 learning_rate: 1e-3' --id demo-longer",
      chosen, [options](Session& session) { return Fork(session, *options); });
  fork.add_option("CHECKPOINT", options->checkpoint,
                  "JOB@best, JOB@latest, JOB@STEP, or JOB for its best one")
      ->required();
  fork.add_option("CHANGES", options->changes,
                  "Fields to change: a file (.json: JSON), '-' for standard input, or the text "
                  "itself");
  AddNewJobOptions(fork, &options->job);
}

}  // namespace lorsa::cli
