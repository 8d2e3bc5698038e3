#include "client/cli/job_submit.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/format.h"
#include "client/cli/job_watch_command.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/json_util.h"
#include "job_spec/spec_text.h"

namespace lorsa::cli {
namespace {

struct SubmitOptions {
  std::vector<std::string> spec;
  NewJobOptions job;
};

struct RunOptions {
  std::string kind;
  std::vector<std::string> parameters;
  std::string activation_set;
  uint32_t threads = 0, keep_checkpoints = 0;
  NewJobOptions job;
};

absl::StatusOr<v1::CreateJobRequest> MakeRequest(Session& session, const SubmitOptions& options) {
  LORSA_ASSIGN_OR_RETURN(const SpecText text,
                         ReadSpecText(options.spec, session.env.in, session.env.fs));
  v1::CreateJobRequest request;
  LORSA_ASSIGN_OR_RETURN(*request.mutable_spec()->mutable_training(), ParseSpec(text));
  LORSA_RETURN_IF_ERROR(
      FillNewJob(session, options.job, request.spec().training().activation_set(), request));
  return request;
}

absl::StatusOr<v1::CreateJobRequest> MakeRequest(Session& session, const RunOptions& options) {
  v1::CreateJobRequest request;
  v1::ProgramSpec& program = *request.mutable_spec()->mutable_program();
  program.set_kind(options.kind);
  program.set_activation_set(options.activation_set);
  program.set_threads(options.threads);
  program.set_keep_checkpoints(options.keep_checkpoints);
  if (!options.parameters.empty()) {
    LORSA_ASSIGN_OR_RETURN(const SpecText text,
                           ReadSpecText(options.parameters, session.env.in, session.env.fs));
    const auto parsed =
        google::protobuf::util::JsonStringToMessage(text.text, program.mutable_parameters());
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(text.source, " is not a JSON object: ", std::string(parsed.message())));
    }
  }
  LORSA_RETURN_IF_ERROR(FillNewJob(session, options.job, options.kind, request));
  return request;
}

std::string TimeText(const v1::JobEstimate& estimate) {
  if (estimate.has_time()) {
    return absl::StrCat("about ", FormatTimeSpan(absl::Seconds(estimate.time().seconds())));
  }
  return "not known before a job of the same precision, threads and ranks succeeded here";
}

void PrintValid(std::ostream& out, const v1::Job& job) {
  const v1::JobEstimate& estimate = job.estimate();
  std::string text;
  const v1::JobSpec& spec = job.resolved_spec();
  if (spec.has_program()) {
    google::protobuf::TextFormat::PrintToString(spec.program(), &text);
    out << "# Specification is valid. Resolved:\n" << Printable(text);
    return;
  }
  google::protobuf::TextFormat::PrintToString(spec.training(), &text);
  out << "# Memory: about " << FormatBytes(estimate.memory_bytes()) << " ("
      << Printable(estimate.memory_parts()) << ")\n"
      << "# Disk for checkpoints: about " << FormatBytes(estimate.disk_bytes()) << "\n"
      << "# Time: " << TimeText(estimate) << "\n"
      << "# Specification is valid. Resolved:\n"
      << Printable(text);
}

template <typename Options>
absl::StatusOr<int> Submit(Session& session, const Options& options) {
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

void AddRunCommand(CLI::App& job, Action* chosen) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App& run = AddCommand(
      job, "run",
      "Queue a job of a kind that the configuration of the server names (docs/workers.md)",
      "lorsa job run count --id first '{\"total\": 100}'", chosen,
      [options](Session& session) { return Submit(session, *options); });
  run.add_option("KIND", options->kind, "Name of the kind, as in job_kinds of the configuration")
      ->required();
  run.add_option("PARAMETERS", options->parameters,
                 "What the program is to do: a JSON file, '-' for standard input, or the JSON "
                 "object itself");
  run.add_option("--set", options->activation_set, "Id of the activation set that the job reads");
  run.add_option("--threads", options->threads, "CPU slots that the job takes (default 1)");
  run.add_option("--keep-checkpoints", options->keep_checkpoints,
                 "How many of the newest checkpoints are kept (default 1)");
  AddNewJobOptions(run, &options->job);
}

}  // namespace lorsa::cli
