#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/cli/checkpoint_name.h"
#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/progress_display.h"
#include "client/cli/table.h"
#include "client/cpp/checkpoint_download.h"

namespace lorsa::cli {
namespace {

int64_t SizeOf(const v1::Checkpoint& checkpoint) {
  int64_t bytes = 0;
  for (const v1::CheckpointFile& file : checkpoint.files()) bytes += file.size_bytes();
  return bytes;
}

std::string Marks(const v1::Checkpoint& checkpoint) {
  std::vector<std::string> marks;
  if (checkpoint.best()) marks.push_back("best");
  if (checkpoint.pinned()) marks.push_back("pinned");
  return absl::StrJoin(marks, ", ");
}

absl::StatusOr<int> List(Session& session, const std::string& job) {
  v1::ListCheckpointsRequest request;
  LORSA_ASSIGN_OR_RETURN(*request.mutable_parent(), ResourceName("jobs", job));
  LORSA_ASSIGN_OR_RETURN(
      const v1::ListCheckpointsResponse response,
      session.client.Call(&v1::CheckpointService::Stub::ListCheckpoints, request));
  Table table({"CHECKPOINT", ">STEP", ">TOKENS", ">FVU", ">SIZE", "CREATED", ""});
  for (const v1::Checkpoint& checkpoint : response.checkpoints()) {
    if (session.json) PrintJson(session.out(), checkpoint);
    table.AddRow(
        {IdOf(checkpoint.name()), FormatCount(checkpoint.step()), FormatCount(checkpoint.tokens()),
         checkpoint.has_fvu() ? FormatNumber(checkpoint.fvu()) : "-",
         FormatBytes(SizeOf(checkpoint)), FormatTime(checkpoint.create_time()), Marks(checkpoint)});
  }
  if (!session.json) table.Print(session.out());
  return kSuccess;
}

// PinCheckpoint or UnpinCheckpoint.
template <typename Request>
absl::StatusOr<int> SetPinned(Session& session,
                              grpc::Status (v1::CheckpointService::Stub::*method)(
                                  grpc::ClientContext*, const Request&, v1::Checkpoint*),
                              const std::string& text) {
  Request request;
  LORSA_ASSIGN_OR_RETURN(*request.mutable_name(), CheckpointName(text));
  LORSA_ASSIGN_OR_RETURN(const v1::Checkpoint checkpoint, session.client.Call(method, request));
  if (session.json) {
    PrintJson(session.out(), checkpoint);
  } else {
    session.out() << checkpoint.name()
                  << (checkpoint.pinned() ? " is pinned.\n" : " is not pinned.\n");
  }
  return kSuccess;
}

// The download's bar, on the error stream, with its speed since the start.
class DownloadProgress {
 public:
  explicit DownloadProgress(Session& session)
      : quiet_(session.json),
        now_(session.env.now),
        start_(session.env.now()),
        display_(session.env.err, session.env.now) {}

  void Show(int64_t done, int64_t total) {
    if (first_ < 0) first_ = done;
    if (quiet_ || total <= 0) return;
    const double seconds = absl::ToDoubleSeconds(now_() - start_);
    std::vector<ProgressPart> parts = {
        {absl::StrCat(FormatBytes(done), " of ", FormatBytes(total)), 2}};
    if (seconds > 0 && done > first_) {
      const double rate = static_cast<double>(done - first_) / seconds;
      parts.push_back({absl::StrCat(FormatBytes(static_cast<int64_t>(rate)), "/s"), 1});
      parts.push_back(
          {FormatTimeSpan(absl::Seconds(static_cast<double>(total - done) / rate)) + " left", 3});
    }
    display_.Update(static_cast<double>(done) / static_cast<double>(total), parts);
  }

  void ShowOutage(const absl::Status& why) {
    if (!quiet_) display_.PrintLine(absl::StrCat("Connecting again: ", why.message()));
  }

 private:
  const bool quiet_;
  const std::function<absl::Time()>& now_;
  const absl::Time start_;
  int64_t first_ = -1;  // bytes done at the first call: what an earlier try had left
  ProgressDisplay display_;
};

absl::StatusOr<int> Download(Session& session, const std::string& text, const std::string& folder) {
  LORSA_ASSIGN_OR_RETURN(const std::string name, CheckpointName(text));
  v1::Checkpoint checkpoint;
  {
    DownloadProgress progress(session);
    LORSA_ASSIGN_OR_RETURN(
        checkpoint,
        client::DownloadCheckpoint(
            session.client, session.env.fs, name, folder,
            {.on_progress = [&](int64_t done, int64_t total) { progress.Show(done, total); },
             .on_outage = [&](const absl::Status& why,
                              absl::Duration) { progress.ShowOutage(why); }}));
  }
  if (session.json) {
    PrintJson(session.out(), checkpoint);
  } else {
    session.out() << checkpoint.name() << " is in " << folder << ": " << checkpoint.files_size()
                  << " files, " << FormatBytes(SizeOf(checkpoint)) << ", sha256 verified.\n";
  }
  return kSuccess;
}

}  // namespace

void AddCheckpointCommands(CLI::App& app, Action* chosen) {
  CLI::App& checkpoint = *app.add_subcommand("checkpoint", "Checkpoints of jobs");
  checkpoint.require_subcommand(1);
  checkpoint.footer("Example: lorsa checkpoint list demo");

  const auto name = std::make_shared<std::string>();
  CLI::App& list =
      AddCommand(checkpoint, "list", "The checkpoints of a job", "lorsa checkpoint list demo",
                 chosen, [name](Session& session) { return List(session, *name); });
  list.add_option("JOB", *name, "Id of the job")->required();

  const auto add_pin = [&](const char* verb, const char* help, const char* example, auto method) {
    AddCommand(checkpoint, verb, help, example, chosen,
               [name, method](Session& session) { return SetPinned(session, method, *name); })
        .add_option("CHECKPOINT", *name, "As for download")
        ->required();
  };
  add_pin("pin", "Keep a checkpoint whatever its job's retention says",
          "lorsa checkpoint pin demo@best", &v1::CheckpointService::Stub::PinCheckpoint);
  add_pin("unpin", "Leave a checkpoint to its job's retention again",
          "lorsa checkpoint unpin demo@1000", &v1::CheckpointService::Stub::UnpinCheckpoint);

  const auto folder = std::make_shared<std::string>();
  CLI::App& download = AddCommand(
      checkpoint, "download",
      "Fetch all files of a checkpoint, each verified. A download that was cut off goes on where "
      "it ended when the command is run again.",
      "lorsa checkpoint download demo@best --out demo-best", chosen,
      [name, folder](Session& session) { return Download(session, *name, *folder); });
  download
      .add_option("CHECKPOINT", *name,
                  "JOB, JOB@best (the same), JOB@latest, JOB@STEP, or a checkpoint's full name")
      ->required();
  download.add_option("--out", *folder, "Folder to make")->required();
}

}  // namespace lorsa::cli
