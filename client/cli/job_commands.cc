#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/job_fork.h"
#include "client/cli/job_metrics.h"
#include "client/cli/job_submit.h"
#include "client/cli/job_watch_command.h"
#include "client/cli/job_watch_view.h"
#include "client/cli/policy_options.h"
#include "client/cli/table.h"
#include "lorsa/client/job_log.h"
#include "lorsa/client/progress.h"

namespace lorsa::cli {
namespace {

constexpr int kMaxPage = 1000;  // of ListJobs

// "running" → JOB_STATE_RUNNING; unspecified for an empty text.
absl::StatusOr<v1::JobState> ParseState(const std::string& text) {
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
  if (text.empty() || v1::JobState_Parse("JOB_STATE_" + absl::AsciiStrToUpper(text), &state)) {
    return state;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' is no state of a job: use queued, starting, running, pausing, paused, ",
      "recovering, cancelling, succeeded, failed or cancelled"));
}

// Done, tokens, loss and FVU. Progress exists only while a worker does; without it the FVU is that
// of the best checkpoint, and what has succeeded is done for certain.
std::vector<std::string> ProgressCells(const v1::Job& job) {
  if (!job.has_progress()) {
    const std::string fvu = job.has_best_fvu() ? FormatNumber(job.best_fvu()) : "-";
    if (job.state() != v1::JOB_STATE_SUCCEEDED) return {"-", "-", "-", fvu};
    const auto tokens = static_cast<int64_t>(job.resolved_spec().training().tokens());
    return {FormatPercent(1), tokens > 0 ? FormatCount(tokens) : "-", "-", fvu};
  }
  const v1::JobProgress& progress = job.progress();
  const auto number = [&](const char* name) {
    const std::optional<double> value = client::ProgressValue(progress, name);
    return value.has_value() && progress.step() > 0 ? FormatNumber(*value) : "-";
  };
  const std::optional<double> tokens = client::ProgressValue(progress, "tokens");
  return {FormatPercent(client::ProgressFraction(progress)),
          tokens.has_value() ? FormatCount(static_cast<int64_t>(*tokens)) : "-", number("loss"),
          number("fvu")};
}

// The activation set that the job reads; empty if it reads none.
std::string SetOf(const v1::Job& job) {
  return job.spec().has_program() ? job.spec().program().activation_set()
                                  : job.spec().training().activation_set();
}

// The message of the kind, on one line.
std::string SpecText(const v1::JobSpec& spec) {
  return spec.has_program() ? spec.program().ShortDebugString()
                            : spec.training().ShortDebugString();
}

// Why the job is as it is, if the state does not say it: what it waits for, else the reason.
std::string Note(const v1::Job& job) {
  return job.waiting_for().empty() ? job.reason() : job.waiting_for();
}

struct ListOptions {
  std::string state;
  std::vector<std::string> labels;
  int64_t limit = 50;
};

absl::StatusOr<int> List(Session& session, const ListOptions& options) {
  v1::ListJobsRequest request;
  LORSA_ASSIGN_OR_RETURN(const v1::JobState state, ParseState(options.state));
  request.set_state(state);
  LORSA_ASSIGN_OR_RETURN(const auto labels, ParseLabels(options.labels));
  request.mutable_labels()->insert(labels.begin(), labels.end());
  Table table(
      {"JOB", "STATE", ">DONE", ">TOKENS", ">LOSS", ">FVU", "KIND", "SET", "CREATED", "NOTE"});
  for (int64_t left = options.limit; left > 0;) {
    request.set_page_size(static_cast<int32_t>(std::min<int64_t>(left, kMaxPage)));
    LORSA_ASSIGN_OR_RETURN(const v1::ListJobsResponse page,
                           session.client.Call(&v1::JobService::Stub::ListJobs, request));
    for (const v1::Job& job : page.jobs()) {
      if (session.json) PrintJson(session.out(), job);
      std::vector<std::string> row = {IdOf(job.name()), FormatState(job.state())};
      for (std::string& cell : ProgressCells(job)) row.push_back(std::move(cell));
      row.push_back(job.kind());
      row.push_back(SetOf(job));
      row.push_back(FormatTime(job.create_time()));
      row.push_back(Note(job));
      table.AddRow(std::move(row));
    }
    left -= page.jobs_size();
    request.set_page_token(page.next_page_token());
    if (page.next_page_token().empty()) break;
  }
  if (!session.json) table.Print(session.out());
  return kSuccess;
}

// Rows that say something: a label, and a text that may be empty.
void AddIfAny(Table& table, const std::string& label, const std::string& text) {
  if (!text.empty()) table.AddRow({label, text});
}

// "layer=12, team=interp"
std::string LabelText(const v1::JobPolicy& policy) {
  std::map<std::string, std::string> sorted;
  for (const auto& [key, value] : policy.labels()) sorted[key] = value;
  return absl::StrJoin(sorted, ", ", absl::PairFormatter("="));
}

void PrintJob(std::ostream& out, const v1::Job& job) {
  Table table;
  table.AddRow({"job", IdOf(job.name())});
  table.AddRow({"state", FormatState(job.state())});
  AddIfAny(table, "reason", job.reason());
  AddIfAny(table, "message", job.message());
  AddIfAny(table, "waiting for", job.waiting_for());
  AddIfAny(table, "because", job.waiting_message());
  if (job.has_progress()) {
    table.AddRow({"progress", RenderPlainProgress(client::ProgressFraction(job.progress()),
                                                  ProgressParts(job.progress()))});
  }
  table.AddRow({"attempt", absl::StrCat(job.attempt())});
  if (job.policy().priority() != 0) {
    table.AddRow({"priority", absl::StrCat(job.policy().priority())});
  }
  AddIfAny(table, "labels", LabelText(job.policy()));
  AddIfAny(table, "forked from", job.forked_from());
  AddIfAny(table, "sweep", job.sweep());
  table.AddRow({"created", FormatTime(job.create_time())});
  if (job.has_start_time()) table.AddRow({"started", FormatTime(job.start_time())});
  if (job.has_end_time()) table.AddRow({"ended", FormatTime(job.end_time())});
  if (job.policy().has_deadline()) {
    table.AddRow({"deadline", FormatTime(job.policy().deadline())});
  }
  AddIfAny(table, "webhook", job.policy().webhook());
  if (job.has_expire_time()) table.AddRow({"deleted at", FormatTime(job.expire_time())});
  AddIfAny(table, "latest checkpoint", job.latest_checkpoint());
  AddIfAny(table, "best checkpoint", job.best_checkpoint());
  table.AddRow({"kind", job.kind()});
  table.AddRow({"specification", SpecText(job.spec())});
  AddIfAny(table, "as run", SpecText(job.resolved_spec()));
  table.Print(out);
  if (!job.log_tail().empty()) {
    out << "\nThe last lines of the log that failed:\n" << Printable(job.log_tail()) << "\n";
  }
}

// Get, pause, resume, cancel and retry: a request with a name, answered by the job.
template <typename Request>
absl::StatusOr<v1::Job> CallByName(
    Session& session,
    grpc::Status (v1::JobService::Stub::*method)(grpc::ClientContext*, const Request&, v1::Job*),
    const std::string& id) {
  Request request;
  LORSA_ASSIGN_OR_RETURN(*request.mutable_name(), ResourceName("jobs", id));
  return session.client.Call(method, request);
}

absl::StatusOr<int> Show(Session& session, const std::string& id) {
  LORSA_ASSIGN_OR_RETURN(const v1::Job job, CallByName(session, &v1::JobService::Stub::GetJob, id));
  if (session.json) {
    PrintJson(session.out(), job);
  } else {
    PrintJob(session.out(), job);
  }
  return kSuccess;
}

template <typename Method>
absl::StatusOr<int> Change(Session& session, Method method, const std::string& id) {
  LORSA_ASSIGN_OR_RETURN(const v1::Job job, CallByName(session, method, id));
  if (session.json) {
    PrintJson(session.out(), job);
  } else {
    session.out() << job.name() << " is " << FormatState(job.state()) << ".\n";
  }
  return kSuccess;
}

absl::StatusOr<int> Delete(Session& session, const std::string& id, bool force) {
  v1::DeleteJobRequest request;
  LORSA_ASSIGN_OR_RETURN(*request.mutable_name(), ResourceName("jobs", id));
  request.set_force(force);
  LORSA_RETURN_IF_ERROR(session.client.Call(&v1::JobService::Stub::DeleteJob, request).status());
  if (!session.json) session.out() << request.name() << " is deleted.\n";
  return kSuccess;
}

absl::StatusOr<int> Logs(Session& session, const std::string& id, bool follow) {
  v1::ReadLogsRequest request;
  LORSA_ASSIGN_OR_RETURN(*request.mutable_name(), ResourceName("jobs", id));
  request.set_follow(follow);
  int attempt = 0;
  const auto print = [&](const v1::ReadLogsResponse& response) {
    if (session.json) return PrintJson(session.out(), response);
    if (response.attempt() != attempt) {
      attempt = response.attempt();
      session.out() << "==> attempt " << attempt << " <==\n";
    }
    session.out() << (session.env.out.is_terminal ? Printable(response.text()) : response.text())
                  << std::flush;
  };
  LORSA_RETURN_IF_ERROR(client::ReadJobLog(session.client, request, print, nullptr));
  return kSuccess;
}

struct UpdateOptions {
  std::string id;
  PolicyOptions policy;
  std::vector<std::string> clear;
  std::set<std::string> given;  // fields of JobPolicy that an option of the command line sets
};

absl::StatusOr<int> Update(Session& session, const UpdateOptions& options) {
  v1::UpdateJobRequest request;
  LORSA_ASSIGN_OR_RETURN(*request.mutable_job()->mutable_name(), ResourceName("jobs", options.id));
  LORSA_ASSIGN_OR_RETURN(*request.mutable_job()->mutable_policy(),
                         MakePolicy(options.policy, session.env.now()));
  std::set<std::string> fields = options.given;
  fields.insert(options.clear.begin(), options.clear.end());
  for (const std::string& field : fields) {
    request.mutable_update_mask()->add_paths("policy." + field);
  }
  if (fields.empty()) {
    return absl::InvalidArgumentError("nothing to change; give an option such as --priority");
  }
  LORSA_ASSIGN_OR_RETURN(const v1::Job job,
                         session.client.Call(&v1::JobService::Stub::UpdateJob, request));
  if (session.json) {
    PrintJson(session.out(), job);
  } else {
    session.out() << job.name() << " is updated.\n";
  }
  return kSuccess;
}

// Options of AddPolicyOptions and the fields of JobPolicy that they set.
constexpr std::pair<const char*, const char*> kPolicyFields[] = {
    {"--priority", "priority"}, {"--label", "labels"},    {"--ttl", "ttl"},
    {"--deadline", "deadline"}, {"--webhook", "webhook"}, {"--step-timeout", "step_timeout"}};

void AddUpdateCommand(CLI::App& job, Action* chosen) {
  const auto options = std::make_shared<UpdateOptions>();
  CLI::App& update = AddCommand(job, "update", "Change how a job is queued, watched over and kept",
                                "lorsa job update demo --priority 10 --clear ttl", chosen,
                                [options](Session& session) { return Update(session, *options); });
  update.add_option("ID", options->id, "Id of the job")->required();
  AddPolicyOptions(update, &options->policy);
  for (const auto& [option, field] : kPolicyFields) {
    update.get_option(option)->each(
        [options, name = std::string(field)](const std::string&) { options->given.insert(name); });
  }
  update.add_option("--clear", options->clear,
                    "Take a setting away: priority, labels, ttl, deadline, step_timeout or "
                    "webhook; may be given several times");
}

CLI::App& AddJobCommand(
    CLI::App& job, const std::string& name, const std::string& description, Action* chosen,
    const std::function<absl::StatusOr<int>(Session&, const std::string&)>& run) {
  const auto id = std::make_shared<std::string>();
  CLI::App& command = AddCommand(job, name, description, "lorsa job " + name + " demo", chosen,
                                 [id, run](Session& session) { return run(session, *id); });
  command.add_option("ID", *id, "Id of the job")->required();
  return command;
}

void AddListCommand(CLI::App& job, Action* chosen) {
  const auto options = std::make_shared<ListOptions>();
  CLI::App& list = AddCommand(
      job, "list", "Jobs, newest first, with the reason why one waits or has ended as it has",
      "lorsa job list --state running --label team=interp", chosen,
      [options](Session& session) { return List(session, *options); });
  list.add_option("--state", options->state, "Only jobs in this state, such as running");
  list.add_option("--label", options->labels,
                  "Only jobs with the label KEY=VALUE; may be given several times");
  list.add_option("--limit", options->limit, "Jobs to show at most (default 50)")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
}

}  // namespace

void AddJobCommands(CLI::App& app, Action* chosen) {
  CLI::App& job =
      *app.add_subcommand("job", "Jobs: training, and other kinds that the server runs");
  job.require_subcommand(1);
  job.footer("Example: lorsa job list --state running");
  AddSubmitCommand(job, chosen);
  AddRunCommand(job, chosen);
  AddForkCommand(job, chosen);
  AddListCommand(job, chosen);
  AddJobCommand(job, "show", "One job in full", chosen, Show);

  AddJobCommand(job, "watch",
                "Follow a job until it ends. Exit code 0 if it succeeded, 3 if it failed, 4 if it "
                "was cancelled, 130 after Ctrl-C, which does nothing to the job.",
                chosen, [](Session& session, const std::string& id) -> absl::StatusOr<int> {
                  LORSA_ASSIGN_OR_RETURN(const std::string name, ResourceName("jobs", id));
                  return WatchJob(session, name, 0);
                });

  const auto follow = std::make_shared<bool>(false);
  AddJobCommand(
      job, "logs", "What the workers of a job printed", chosen,
      [follow](Session& session, const std::string& id) { return Logs(session, id, *follow); })
      .add_flag("--follow", *follow, "Wait for more until the job has ended");

  AddJobCommand(job, "pause", "Let a running job make a checkpoint and stop", chosen,
                [](Session& session, const std::string& id) {
                  return Change(session, &v1::JobService::Stub::PauseJob, id);
                });
  AddJobCommand(job, "resume", "Queue a paused job again", chosen,
                [](Session& session, const std::string& id) {
                  return Change(session, &v1::JobService::Stub::ResumeJob, id);
                });
  AddJobCommand(job, "cancel", "End a job; its checkpoints stay", chosen,
                [](Session& session, const std::string& id) {
                  return Change(session, &v1::JobService::Stub::CancelJob, id);
                });
  AddJobCommand(job, "retry",
                "Queue a job that failed again; it goes on from its newest checkpoint", chosen,
                [](Session& session, const std::string& id) {
                  return Change(session, &v1::JobService::Stub::RetryJob, id);
                });
  AddUpdateCommand(job, chosen);
  const auto force = std::make_shared<bool>(false);
  AddJobCommand(
      job, "delete", "Remove a job that has ended, with its history, metrics, logs and checkpoints",
      chosen,
      [force](Session& session, const std::string& id) { return Delete(session, id, *force); })
      .add_flag("--force", *force, "Also if a checkpoint of it is pinned");
  AddMetricsCommand(job, chosen);
}

}  // namespace lorsa::cli
