#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/job_submit.h"
#include "client/cli/job_watch_view.h"
#include "client/cli/policy_options.h"
#include "client/cli/table.h"
#include "google/protobuf/text_format.h"
#include "job_spec/spec_text.h"
#include "lorsa/client/job_watch.h"
#include "lorsa/client/progress.h"

namespace lorsa::cli {
namespace {

constexpr int kMaxPage = 1000;  // of ListJobs and ListSweeps
constexpr absl::Duration kWatchInterval = absl::Seconds(2);

// --- What is shown of a sweep ---

// "RUNNING 2, SUCCEEDED 3"
std::string CountsText(const v1::Sweep& sweep) {
  std::map<std::string, int> sorted;
  for (const auto& [state, jobs] : sweep.jobs_by_state()) sorted[state] = jobs;
  return absl::StrJoin(sorted, ", ", absl::PairFormatter(" "));
}

// The value of a swept field in a job's specification, as text format writes it.
std::string SweptValue(const v1::TrainingSpec& spec, const std::string& name) {
  const auto* const field = v1::TrainingSpec::descriptor()->FindFieldByName(name);
  if (field == nullptr) return "-";  // Of a newer server.
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(spec, field, -1, &text);
  return text;
}

// Of the best checkpoint, or of a worker's newest evaluation before there is one.
double FvuOf(const v1::Job& job) {
  if (job.has_best_fvu()) return job.best_fvu();
  return client::ProgressValue(job.progress(), "fvu")
      .value_or(std::numeric_limits<double>::infinity());
}

// Best first; those that have no FVU yet last, in order of their names.
void SortByFvu(std::vector<v1::Job>& jobs) {
  std::sort(jobs.begin(), jobs.end(), [](const v1::Job& a, const v1::Job& b) {
    return std::make_pair(FvuOf(a), a.name()) < std::make_pair(FvuOf(b), b.name());
  });
}

absl::StatusOr<std::vector<v1::Job>> JobsOf(Session& session, const std::string& sweep) {
  v1::ListJobsRequest request;
  request.set_sweep(sweep);
  request.set_page_size(kMaxPage);
  std::vector<v1::Job> jobs;
  do {
    LORSA_ASSIGN_OR_RETURN(const v1::ListJobsResponse page,
                           session.client.Call(&v1::JobService::Stub::ListJobs, request));
    jobs.insert(jobs.end(), page.jobs().begin(), page.jobs().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  SortByFvu(jobs);
  return jobs;
}

void PrintJobs(std::ostream& out, const v1::Sweep& sweep, const std::vector<v1::Job>& jobs) {
  std::vector<std::string> headers = {"JOB", "STATE", ">DONE", ">FVU"};
  for (const v1::SweepParameter& parameter : sweep.parameters()) {
    headers.push_back(">" + Printable(parameter.field()));
  }
  headers.push_back("NOTE");
  Table table(headers);
  for (const v1::Job& job : jobs) {
    const bool succeeded = job.state() == v1::JOB_STATE_SUCCEEDED;
    const double fvu = FvuOf(job);
    std::vector<std::string> row = {
        IdOf(job.name()), FormatState(job.state()),
        job.has_progress() ? FormatPercent(client::ProgressFraction(job.progress()))
        : succeeded        ? FormatPercent(1)
                           : "-",
        fvu < std::numeric_limits<double>::infinity() ? FormatNumber(fvu) : "-"};
    for (const v1::SweepParameter& parameter : sweep.parameters()) {
      row.push_back(SweptValue(job.spec().training(), parameter.field()));
    }
    row.push_back(job.waiting_for().empty() ? job.reason() : job.waiting_for());
    table.AddRow(std::move(row));
  }
  table.Print(out);
}

template <typename Request>
absl::StatusOr<v1::Sweep> CallByName(
    Session& session,
    grpc::Status (v1::JobService::Stub::*method)(grpc::ClientContext*, const Request&, v1::Sweep*),
    const std::string& id) {
  Request request;
  LORSA_ASSIGN_OR_RETURN(*request.mutable_name(), ResourceName("sweeps", id));
  return session.client.Call(method, request);
}

// --- The verbs ---

absl::StatusOr<int> Show(Session& session, const std::string& id) {
  LORSA_ASSIGN_OR_RETURN(const v1::Sweep sweep,
                         CallByName(session, &v1::JobService::Stub::GetSweep, id));
  LORSA_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs, JobsOf(session, sweep.name()));
  if (session.json) {
    PrintJson(session.out(), sweep);
    for (const v1::Job& job : jobs) PrintJson(session.out(), job);
  } else {
    session.out() << sweep.name() << ": " << CountsText(sweep) << "\n";
    PrintJobs(session.out(), sweep, jobs);
  }
  return kSuccess;
}

absl::StatusOr<int> List(Session& session, int64_t limit) {
  v1::ListSweepsRequest request;
  Table table({"SWEEP", ">JOBS", "STATES", ">BEST FVU", "BEST JOB", "CREATED"});
  for (int64_t left = limit; left > 0;) {
    request.set_page_size(static_cast<int32_t>(std::min<int64_t>(left, kMaxPage)));
    LORSA_ASSIGN_OR_RETURN(const v1::ListSweepsResponse page,
                           session.client.Call(&v1::JobService::Stub::ListSweeps, request));
    for (const v1::Sweep& sweep : page.sweeps()) {
      if (session.json) PrintJson(session.out(), sweep);
      table.AddRow({IdOf(sweep.name()), absl::StrCat(sweep.jobs()), CountsText(sweep),
                    sweep.has_best_fvu() ? FormatNumber(sweep.best_fvu()) : "-",
                    sweep.best_job().empty() ? "-" : IdOf(sweep.best_job()),
                    FormatTime(sweep.create_time())});
    }
    left -= page.sweeps_size();
    request.set_page_token(page.next_page_token());
    if (page.next_page_token().empty()) break;
  }
  if (!session.json) table.Print(session.out());
  return kSuccess;
}

absl::StatusOr<int> Cancel(Session& session, const std::string& id) {
  LORSA_ASSIGN_OR_RETURN(const v1::Sweep sweep,
                         CallByName(session, &v1::JobService::Stub::CancelSweep, id));
  if (session.json) {
    PrintJson(session.out(), sweep);
  } else {
    session.out() << sweep.name() << ": " << CountsText(sweep) << "\n";
  }
  return kSuccess;
}

// A line for each change of a job's state, until all have ended; then the table.
class SweepWatch {
 public:
  SweepWatch(Session& session, std::string name) : session_(session), name_(std::move(name)) {}

  absl::StatusOr<int> Run() {
    while (true) {
      LORSA_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs, JobsOf(session_, name_));
      ShowChanges(jobs);
      if (std::all_of(jobs.begin(), jobs.end(),
                      [](const v1::Job& job) { return client::IsFinal(job.state()); })) {
        if (!session_.json) LORSA_RETURN_IF_ERROR(Show(session_, name_).status());
        return ExitCodeOf(jobs);
      }
      if (!session_.client.SleepFor(kWatchInterval)) return kInterrupted;
    }
  }

 private:
  void ShowChanges(const std::vector<v1::Job>& jobs) {
    for (const v1::Job& job : jobs) {
      int64_t& seen = revisions_[job.name()];
      if (seen == job.revision()) continue;
      seen = job.revision();
      if (session_.json) {
        PrintJson(session_.out(), job);
      } else if (states_[job.name()] != job.state()) {
        const double fvu = FvuOf(job);
        session_.out() << IdOf(job.name()) << " is " << FormatState(job.state());
        if (fvu < std::numeric_limits<double>::infinity()) {
          session_.out() << ", FVU " << FormatNumber(fvu);
        }
        session_.out() << std::endl;
      }
      states_[job.name()] = job.state();
    }
  }

  static int ExitCodeOf(const std::vector<v1::Job>& jobs) {
    int code = kSuccess;
    for (const v1::Job& job : jobs) {
      if (job.state() == v1::JOB_STATE_FAILED) return kJobFailed;
      if (job.state() == v1::JOB_STATE_CANCELLED) code = kJobCancelled;
    }
    return code;
  }

  Session& session_;
  const std::string name_;
  std::map<std::string, int64_t> revisions_;
  std::map<std::string, v1::JobState> states_;
};

absl::StatusOr<int> Watch(Session& session, const std::string& id) {
  LORSA_ASSIGN_OR_RETURN(const v1::Sweep sweep,
                         CallByName(session, &v1::JobService::Stub::GetSweep, id));
  return SweepWatch(session, sweep.name()).Run();
}

struct CreateOptions {
  std::vector<std::string> spec;
  std::vector<std::string> over;  // FIELD=VALUE,VALUE,…
  NewJobOptions job;              // its id is the sweep's
};

absl::StatusOr<v1::CreateSweepRequest> MakeRequest(Session& session, const CreateOptions& options) {
  LORSA_ASSIGN_OR_RETURN(const SpecText text,
                         ReadSpecText(options.spec, session.env.in, session.env.fs));
  v1::CreateSweepRequest request;
  LORSA_ASSIGN_OR_RETURN(*request.mutable_spec(), ParseSpec(text));
  for (const std::string& over : options.over) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(over, absl::MaxSplits('=', 1));
    v1::SweepParameter& parameter = *request.add_parameters();
    parameter.set_field(parts.first);
    for (const absl::string_view value : absl::StrSplit(parts.second, ',', absl::SkipEmpty())) {
      parameter.add_values(std::string(value));
    }
  }
  request.set_sweep_id(options.job.id);
  LORSA_RETURN_IF_ERROR(ValidateId("sweep id", request.sweep_id()));
  request.set_request_id(client::GenerateRequestId(session.env.random));
  request.set_validate_only(options.job.validate_only);
  LORSA_ASSIGN_OR_RETURN(*request.mutable_policy(),
                         MakePolicy(options.job.policy, session.env.now()));
  return request;
}

absl::StatusOr<int> Create(Session& session, const CreateOptions& options) {
  LORSA_ASSIGN_OR_RETURN(const v1::CreateSweepRequest request, MakeRequest(session, options));
  LORSA_ASSIGN_OR_RETURN(const v1::Sweep sweep,
                         session.client.Call(&v1::JobService::Stub::CreateSweep, request));
  if (session.json) {
    PrintJson(session.out(), sweep);
  } else if (options.job.validate_only) {
    session.out() << "The sweep holds: " << sweep.jobs() << " jobs.\n";
  } else {
    session.out() << sweep.name() << ": " << sweep.jobs() << " jobs are queued.";
    if (!options.job.watch) {
      session.out() << " Watch them with: lorsa sweep watch " << IdOf(sweep.name());
    }
    session.out() << std::endl;
  }
  if (!options.job.watch || options.job.validate_only) return kSuccess;
  return SweepWatch(session, sweep.name()).Run();
}

void AddCreateCommand(CLI::App& sweep, Action* chosen) {
  const auto options = std::make_shared<CreateOptions>();
  CLI::App& create = AddCommand(
      sweep, "create",
      "Queue a training job for each combination of the values of some fields: all jobs or none",
      "lorsa sweep create --id grid 'activation_set: \"smollm2-l12\"' --over top_k=32,64,128 "
      "--over learning_rate=1e-3,3e-3",
      chosen, [options](Session& session) { return Create(session, *options); });
  create
      .add_option("SPEC", options->spec,
                  "What all jobs have in common: a file (.json: JSON), '-' for standard input, or "
                  "the specification itself")
      ->required();
  create
      .add_option("--over", options->over,
                  "FIELD=VALUE,VALUE,… of the specification; may be given several times, at most "
                  "256 combinations")
      ->required();
  create.add_option("--id", options->job.id, "Id of the sweep; its jobs are ID-000, ID-001, …")
      ->required();
  create.add_flag("--validate-only", options->job.validate_only, "Only check the specifications");
  create.add_flag("--watch", options->job.watch, "Then watch it; exit codes as of `sweep watch`");
  AddPolicyOptions(create, &options->job.policy);
}

void AddSweepCommand(CLI::App& sweep, const std::string& name, const std::string& description,
                     Action* chosen,
                     const std::function<absl::StatusOr<int>(Session&, const std::string&)>& run) {
  const auto id = std::make_shared<std::string>();
  AddCommand(sweep, name, description, "lorsa sweep " + name + " grid", chosen,
             [id, run](Session& session) { return run(session, *id); })
      .add_option("ID", *id, "Id of the sweep")
      ->required();
}

}  // namespace

void AddSweepCommands(CLI::App& app, Action* chosen) {
  CLI::App& sweep = *app.add_subcommand("sweep", "Groups of jobs that differ in some fields");
  sweep.require_subcommand(1);
  sweep.footer("Example: lorsa sweep show grid");
  AddCreateCommand(sweep, chosen);
  const auto limit = std::make_shared<int64_t>(50);
  AddCommand(sweep, "list", "Sweeps, newest first", "lorsa sweep list", chosen,
             [limit](Session& session) { return List(session, *limit); })
      .add_option("--limit", *limit, "Sweeps to show at most (default 50)")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
  AddSweepCommand(sweep, "show", "The jobs of a sweep, the one with the lowest FVU first", chosen,
                  Show);
  AddSweepCommand(sweep, "watch",
                  "Follow the jobs of a sweep until all have ended. Exit code 0 if all succeeded, "
                  "3 if one failed, else 4; 130 after Ctrl-C, which does nothing to the jobs.",
                  chosen, Watch);
  AddSweepCommand(sweep, "cancel", "End each job of a sweep that has not ended", chosen, Cancel);
}

}  // namespace lorsa::cli
