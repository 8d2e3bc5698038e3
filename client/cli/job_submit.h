// `lorsa job submit` and `lorsa job run`, and what they share with other commands that make jobs.
#ifndef LORSA_CLIENT_CLI_JOB_SUBMIT_H_
#define LORSA_CLIENT_CLI_JOB_SUBMIT_H_

#include <string>

#include "CLI/App.hpp"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "client/cli/policy_options.h"
#include "client/cli/session.h"
#include "lorsa/client/job_submit.h"

namespace lorsa::cli {

// The options of a command that makes a job, besides what it trains.
struct NewJobOptions {
  std::string id;
  PolicyOptions policy;
  bool validate_only = false;
  bool watch = false;
};
void AddNewJobOptions(CLI::App& command, NewJobOptions* options);

// Fills job_id, request_id, policy and validate_only of a CreateJobRequest or ForkJobRequest.
// Without an id one is made from `name` and the time.
template <typename Request>
absl::Status FillNewJob(Session& session, const NewJobOptions& options, const std::string& name,
                        Request& request) {
  request.set_job_id(options.id.empty()
                         ? client::GenerateJobId(name, session.env.now(), session.env.random)
                         : options.id);
  LORSA_RETURN_IF_ERROR(ValidateId("job id", request.job_id()));
  request.set_request_id(client::GenerateRequestId(session.env.random));
  request.set_validate_only(options.validate_only);
  LORSA_ASSIGN_OR_RETURN(*request.mutable_policy(), MakePolicy(options.policy, session.env.now()));
  return absl::OkStatus();
}

// Says what became of the request, and watches the job if that was asked for. The exit code.
absl::StatusOr<int> ShowNewJob(Session& session, const NewJobOptions& options, const v1::Job& job);

// Add `submit` and `run` below `job`.
void AddSubmitCommand(CLI::App& job, Action* chosen);
void AddRunCommand(CLI::App& job, Action* chosen);

}  // namespace lorsa::cli

#endif  // LORSA_CLIENT_CLI_JOB_SUBMIT_H_
