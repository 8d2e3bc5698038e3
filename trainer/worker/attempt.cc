// The end of an attempt:
//   1. the run has published its last checkpoint, if it owes one
//   2. the outcome goes to the outcome file, atomically: it counts even if no server is there. A
//      worker that does not share the server's disk has no such file, and waits in 3 until the
//      session gives up
//   3. the session delivers what metrics are left, then the outcome; the server records it
//   4. the process exits
// A crash before 2 is a lost worker: the server starts the next attempt.
#include "trainer/worker/attempt.h"

#include <google/protobuf/text_format.h>

#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/process_identity.h"
#include "base/status_macros.h"
#include "spdlog/spdlog.h"
#include "trainer/config/config_from_spec.h"
#include "trainer/train/training_run.h"
#include "trainer/worker/attempt_folder.h"
#include "trainer/worker/messages.h"
#include "trainer/worker/remote_host.h"
#include "trainer/worker/run_log.h"
#include "trainer/worker/server_channel.h"
#include "trainer/worker/server_session.h"

namespace lorsa::worker {
namespace {

constexpr char kStdin[] = "-";
constexpr uint64_t kMaxBootstrapBytes = 64 << 10;
constexpr absl::Duration kFinishTimeout = absl::Seconds(60);

absl::StatusOr<std::string> ReadStdin() {
  std::string text(kMaxBootstrapBytes, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::cin.gcount()));
  if (std::cin.eof()) return text;
  return absl::InvalidArgumentError(
      absl::StrCat("stdin holds more than a WorkerBootstrap of ", kMaxBootstrapBytes, " bytes"));
}

absl::StatusOr<v1::WorkerBootstrap> ReadBootstrap(FileSystem& fs, const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const std::string text,
                         path == kStdin ? ReadStdin() : ReadFile(fs, path, kMaxBootstrapBytes));
  v1::WorkerBootstrap bootstrap;
  // Standard input may have ended before anything came.
  const bool parsed = google::protobuf::TextFormat::ParseFromString(text, &bootstrap);
  if (!parsed || bootstrap.job().empty() || bootstrap.token().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        " is not a WorkerBootstrap; only lorsad writes these, see --standalone for a run "
        "without a server"));
  }
  return bootstrap;
}

absl::Status CheckScratch(const v1::WorkerBootstrap& bootstrap, const AttemptOptions& options) {
  const bool shares_disk = bootstrap.endpoint().empty();
  if (shares_disk == options.scratch_folder.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      shares_disk ? "this attempt shares the disk of its server: leave --scratch out"
                  : "this attempt does not share the disk of its server: name a folder of this "
                    "machine with --scratch");
}

// What the run came to, as the server is to record it; an error if this attempt has nothing to say
// any more.
absl::StatusOr<v1::WorkerOutcome> Conclude(const absl::StatusOr<trainer::RunOutcome>& result,
                                           const absl::Status& session) {
  if (absl::IsUnavailable(session)) {  // The server stayed away: as good as drained.
    v1::WorkerOutcome outcome;
    outcome.set_kind(v1::WorkerOutcome::KIND_DRAINED);
    outcome.set_message(std::string(session.message()));
    return outcome;
  }
  LORSA_RETURN_IF_ERROR(session);
  return result.ok() ? ToMessage(*result) : FailedOutcome(result.status());
}

absl::StatusOr<trainer::RunOutcome> Train(const v1::Welcome& welcome, RemoteHost& host,
                                          LeadingRank& leader) {
  LORSA_ASSIGN_OR_RETURN(
      const trainer::TrainConfig config,
      ConfigFromSpec(welcome.resolved_spec().training(), welcome.activation_set()));
  LORSA_ASSIGN_OR_RETURN(
      const trainer::KernelDecorator decorate,
      leader.Decorator(welcome.resolved_spec().training(), welcome.activation_set()));
  const std::vector<std::string> folders(welcome.checkpoint_folders().begin(),
                                         welcome.checkpoint_folders().end());
  LogExpected(config);
  return trainer::RunTraining(config, host, folders,
                              {.decorate = decorate,
                               .first_step = welcome.first_step(),
                               .initial_checkpoint = welcome.initial_checkpoint_folder()});
}

// The attempt's folder on this machine; null if it shares the server's disk, where its staging
// folder is then made.
absl::StatusOr<std::unique_ptr<AttemptFolder>> PrepareFolder(FileSystem& fs,
                                                             const std::string& scratch,
                                                             const v1::WorkerBootstrap& bootstrap) {
  if (!scratch.empty()) return AttemptFolder::Create(fs, scratch, bootstrap);
  LORSA_RETURN_IF_ERROR(fs.CreateDirectories(bootstrap.staging_folder()));
  return nullptr;
}

absl::Status TakeRollbacks(FileSystem& fs, const v1::Welcome& welcome,
                           const AttemptFolder& folder) {
  if (welcome.rollbacks().empty()) return absl::OkStatus();
  return WriteFileAtomically(fs, folder.rollbacks_file(), welcome.rollbacks());
}

absl::Status WriteOutcome(FileSystem& fs, const std::string& path,
                          const v1::WorkerOutcome& outcome) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(outcome, &text);
  return WriteFileAtomically(fs, path, text);
}

}  // namespace

absl::Status RunAttempt(FileSystem& fs, const AttemptOptions& options,
                        const std::atomic<bool>& stop, LeadingRank& leader) {
  LORSA_ASSIGN_OR_RETURN(const v1::WorkerBootstrap bootstrap,
                         ReadBootstrap(fs, options.bootstrap_file));
  LORSA_RETURN_IF_ERROR(CheckScratch(bootstrap, options));
  LORSA_ASSIGN_OR_RETURN(ProcessIdentity self, IdentifySelf());
  LORSA_ASSIGN_OR_RETURN(const std::unique_ptr<AttemptFolder> folder,
                         PrepareFolder(fs, options.scratch_folder, bootstrap));
  SetLogPattern(absl::StrCat("job=", bootstrap.job(), " attempt=", bootstrap.attempt()));
  spdlog::info("event=worker_start");
  ServerChannel channel(fs, bootstrap);
  ServerSession session(channel, std::move(self));
  LORSA_ASSIGN_OR_RETURN(const v1::Welcome welcome, session.Start());
  if (folder != nullptr) LORSA_RETURN_IF_ERROR(TakeRollbacks(fs, welcome, *folder));
  RemoteHost host(fs, channel, session, welcome, folder.get(), stop);
  const absl::StatusOr<trainer::RunOutcome> result = Train(welcome, host, leader);
  LORSA_ASSIGN_OR_RETURN(const v1::WorkerOutcome outcome, Conclude(result, session.status()));
  spdlog::info("event=worker_end outcome={} message=\"{}\"",
               v1::WorkerOutcome::Kind_Name(outcome.kind()), outcome.message());
  if (result.ok()) LogTaken(*result);
  if (folder != nullptr) return session.Finish(outcome, absl::InfiniteDuration());   // 3
  const absl::Status written = WriteOutcome(fs, bootstrap.outcome_file(), outcome);  // 2
  const absl::Status finished = session.Finish(outcome, kFinishTimeout);             // 3
  return finished.ok() ? absl::OkStatus() : written;
}

}  // namespace lorsa::worker
