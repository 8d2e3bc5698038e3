#include "client/cli/job_submit.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/format.h"
#include "client/cli/job_watch_command.h"
#include "google/protobuf/text_format.h"
#include "job_spec/spec_text.h"

namespace lorsa::cli {
namespace {

struct SubmitOptions {
  std::vector<std::string> spec;
  NewJobOptions job;
};

absl::StatusOr<v1::CreateJobRequest> MakeRequest(Session& session, const SubmitOptions& options) {
  LORSA_ASSIGN_OR_RETURN(const SpecText text,
                         ReadSpecText(options.spec, session.env.in, session.env.fs));
  v1::CreateJobRequest request;
  LORSA_ASSIGN_OR_RETURN(*request.mutable_spec(), ParseSpec(text));
  LORSA_RETURN_IF_ERROR(FillNewJob(session, options.job, request.spec().activation_set(), request));
  return request;
}

std::string TimeText(const v1::JobEstimate& estimate) {
  if (estimate.has_seconds()) {
    return absl::StrCat("about ", FormatTimeSpan(absl::Seconds(estimate.seconds())));
  }
  return "not known before a job of the same precision, threads and ranks succeeded here";
}

void PrintValid(std::ostream& out, const v1::Job& job) {
  const v1::JobEstimate& estimate = job.estimate();
  std::string text;
  google::protobuf::TextFormat::PrintToString(job.resolved_spec(), &text);
  out << "# Memory: about " << FormatBytes(estimate.memory_bytes()) << " ("
      << Printable(estimate.memory_parts()) << ")\n"
      << "# Disk for checkpoints: about " << FormatBytes(estimate.disk_bytes()) << "\n"
      << "# Time: " << TimeText(estimate) << "\n"
      << "# The specification holds. As it would run:\n"
      << Printable(text);
}

absl::StatusOr<int> Submit(Session& session, const SubmitOptions& options) {
  LORSA_ASSIGN_OR_RETURN(const v1::CreateJobRequest request, MakeRequest(session, options));
  LORSA_ASSIGN_OR_RETURN(const v1::Job job, client::SubmitJob(session.client, request));
  return ShowNewJob(session, options.job, job);
}

}  // namespace

void AddNewJobOptions(CLI::App& command, NewJobOptions* options) {
  command.add_option("--id", options->id, "Id of the job (default: made of a name and the time)");
  command.add_flag("--validate-only", options->validate_only,
                   "Only check the specification, and show it with every default filled in and "
                   "what it takes");
  command.add_flag("--watch", options->watch, "Then watch the job; exit codes as of `job watch`");
  AddPolicyOptions(command, &options->policy);
}

absl::StatusOr<int> ShowNewJob(Session& session, const NewJobOptions& options, const v1::Job& job) {
  if (session.json) {
    PrintJson(session.out(), job);
  } else if (options.validate_only) {
    PrintValid(session.out(), job);
  } else {
    session.out() << job.name() << " is queued.";
    if (!options.watch) session.out() << " Watch it with: lorsa job watch " << IdOf(job.name());
    session.out() << std::endl;
  }
  if (!options.watch || options.validate_only) return kSuccess;
  return WatchJob(session, job.name(), 0);
}

void AddSubmitCommand(CLI::App& job, Action* chosen) {
  const auto options = std::make_shared<SubmitOptions>();
  CLI::App& submit = AddCommand(
      job, "submit",
      "Queue a training job. Its specification is a lorsa.v1.TrainingSpec in Protobuf's text "
      "format or JSON: fields left out get their defaults.",
      "lorsa job submit --id demo 'activation_set: \"smollm2-l12\" expansion_factor: 8 top_k: 64'",
      chosen, [options](Session& session) { return Submit(session, *options); });
  submit
      .add_option("SPEC", options->spec,
                  "A file (.json: JSON), '-' for standard input, or the specification itself")
      ->required();
  AddNewJobOptions(submit, &options->job);
}

}  // namespace lorsa::cli
