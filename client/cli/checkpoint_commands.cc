#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "client/cli/byte_progress.h"
#include "client/cli/checkpoint_name.h"
#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/table.h"
#include "lorsa/client/checkpoint_download.h"

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
  if (!checkpoint.damage().empty()) marks.push_back("damaged");
  return absl::StrJoin(marks, ", ");
}

absl::StatusOr<int> List(Session& session, const std::string& job) {
  v1::ListCheckpointsRequest request;
  LORSA_ASSIGN_OR_RETURN(*request.mutable_parent(), ResourceName("jobs", job));
  request.set_page_size(1000);
  Table table({"CHECKPOINT", ">STEP", ">TOKENS", ">FVU", ">SIZE", "CREATED", ""});
  do {
    LORSA_ASSIGN_OR_RETURN(
        const v1::ListCheckpointsResponse page,
        session.client.Call(&v1::CheckpointService::Stub::ListCheckpoints, request));
    for (const v1::Checkpoint& checkpoint : page.checkpoints()) {
      if (session.json) PrintJson(session.out(), checkpoint);
      table.AddRow({IdOf(checkpoint.name()), FormatCount(checkpoint.step()),
                    FormatCount(checkpoint.tokens()),
                    checkpoint.has_fvu() ? FormatNumber(checkpoint.fvu()) : "-",
                    FormatBytes(SizeOf(checkpoint)), FormatTime(checkpoint.create_time()),
                    Marks(checkpoint)});
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
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

absl::StatusOr<int> Download(Session& session, const std::string& text, const std::string& folder) {
  LORSA_ASSIGN_OR_RETURN(const std::string name, CheckpointName(text));
  v1::Checkpoint checkpoint;
  {
    ByteProgress progress(session);
    LORSA_ASSIGN_OR_RETURN(
        checkpoint,
        client::DownloadCheckpoint(
            session.client, name, folder,
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

absl::StatusOr<int> Delete(Session& session, const std::string& text) {
  v1::DeleteCheckpointRequest request;
  LORSA_ASSIGN_OR_RETURN(*request.mutable_name(), CheckpointName(text));
  LORSA_RETURN_IF_ERROR(
      session.client.Call(&v1::CheckpointService::Stub::DeleteCheckpoint, request).status());
  if (!session.json) session.out() << request.name() << " is deleted.\n";
  return kSuccess;
}

absl::StatusOr<int> Import(Session& session, const std::string& job, const std::string& path) {
  LORSA_RETURN_IF_ERROR(ValidateId("job id", job));
  v1::ImportCheckpointRequest request;
  request.set_job_id(job);
  request.set_path(path);
  v1::Checkpoint checkpoint;
  {
    ByteProgress progress(session);
    LORSA_RETURN_IF_ERROR(session.client.Stream(&v1::CheckpointService::Stub::ImportCheckpoint,
                                                request,
                                                [&](const v1::ImportCheckpointResponse& response) {
                                                  progress.ShowProgressOf(response);
                                                  if (response.has_checkpoint())
                                                    checkpoint = response.checkpoint();
                                                  return absl::OkStatus();
                                                }));
  }
  if (checkpoint.name().empty()) {
    return absl::InternalError("the server ended the import without a result: list the jobs");
  }
  if (session.json) {
    PrintJson(session.out(), checkpoint);
  } else {
    session.out() << checkpoint.name() << " is imported: " << FormatBytes(SizeOf(checkpoint))
                  << ", verified.\n";
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

  AddCommand(checkpoint, "delete",
             "Remove a checkpoint that is not pinned and that no job will go on from",
             "lorsa checkpoint delete demo@1000", chosen,
             [name](Session& session) { return Delete(session, *name); })
      .add_option("CHECKPOINT", *name, "JOB@STEP or a checkpoint's full name")
      ->required();

  const auto folder = std::make_shared<std::string>();
  CLI::App& import =
      AddCommand(checkpoint, "import",
                 "Copy a checkpoint's folder on the server, written by another program in this "
                 "format, and make "
                 "a job of it that has ended",
                 "lorsa checkpoint import converted /data/converted/step-000001000", chosen,
                 [name, folder](Session& session) { return Import(session, *name, *folder); });
  import.add_option("JOB", *name, "Id of the job to make")->required();
  import.add_option("PATH", *folder, "Absolute path of the folder on the server")->required();

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
