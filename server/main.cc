// lorsad: holds the durable state of the service and runs its jobs; copies and restores its
// catalog. Exit codes: 0 done, or stopped by SIGTERM or SIGINT; 1 it could not be done; 2 wrong
// usage or configuration.
#include <malloc.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <variant>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/exception_wall.h"
#include "base/file_system.h"
#include "base/folder_lock.h"
#include "base/status_macros.h"
#include "server/catalog/catalog_backup.h"
#include "server/catalog/missing_file_locks.h"
#include "server/descriptor_limit.h"
#include "server/jobs/folder_generation.h"
#include "server/jobs/lost_and_found.h"
#include "server/jobs/restore_plan.h"
#include "server/logging.h"
#include "server/lorsad.h"
#include "server/lorsad_options.h"
#include "server/model/data_layout.h"
#include "server/shutdown_signals.h"

namespace lorsa::server {
namespace {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "lorsad: %s\n", std::string(status.message()).c_str());
  return EXIT_FAILURE;
}

// Many threads serve streams. With an arena of malloc for each thread, what one stream freed would
// be of no use to the next: memory would grow to twice its size over some thousand requests
// (bench/memory.sh).
constexpr int kMallocArenas = 2;

// What the libraries in this process do by default and a server must not.
void TuneProcess() {
  mallopt(M_ARENA_MAX, kMallocArenas);
#ifdef NDEBUG
  // Debian's Abseil has its deadlock detection on: every lock, gRPC's own too, would pay for it.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
}

int Serve(const LorsadOptions& options) {
  TuneProcess();
  ShutdownSignals signals;
  if (const absl::Status set_up = SetUpLogging(options.log); !set_up.ok()) return Fail(set_up);
  if (const absl::Status raised = SetDescriptorLimit(options.limits.descriptors); !raised.ok()) {
    spdlog::warn("event=descriptor_limit message=\"cannot be set: {}\"",
                 std::string(raised.message()));
  }
  absl::StatusOr<std::unique_ptr<Lorsad>> lorsad = Lorsad::Start(options);
  if (!lorsad.ok()) return Fail(lorsad.status());
  spdlog::info("event=listening address={} data_dir={} version={}", (*lorsad)->address(),
               options.data_folder, kVersion);
  const int signal = signals.Wait();
  spdlog::info("event=stopping signal={}", signal);
  const SecondSignalWatch forced([] {
    spdlog::warn("event=stopping_at_once message=\"second signal\"");
    std::_Exit(EXIT_FAILURE);
  });
  lorsad->reset();
  spdlog::info("event=stopped");
  return EXIT_SUCCESS;
}

int BackUp(FileSystem& fs, const LorsadCommand& command) {
  std::error_code error;
  const std::string target =
      std::filesystem::is_directory(command.path, error)
          ? JoinPath(command.path, absl::FormatTime("catalog-%Y%m%dT%H%M%SZ.sqlite", absl::Now(),
                                                    absl::UTCTimeZone()))
          : command.path;
  const absl::Status status =
      BackUpCatalog(fs, DataLayout(command.options.data_folder).CatalogFile(), target);
  if (!status.ok()) return Fail(status);
  std::printf("%s\n", target.c_str());
  return EXIT_SUCCESS;
}

// Says what it means, then does it.
absl::Status RestoreInto(FileSystem& fs, const DataLayout& layout, const LorsadCommand& command) {
  LORSA_RETURN_IF_ERROR(fs.CreateDirectories(layout.root()));
  LORSA_ASSIGN_OR_RETURN(const auto lock, FolderLock::Acquire(layout.LockFile()));
  GrantMissingFileLocks();
  LORSA_ASSIGN_OR_RETURN(const RestorePlan plan, PlanRestore(fs, command.path, layout));
  std::printf("%s", plan.Describe(command.set_aside).c_str());
  if (command.dry_run) return absl::OkStatus();
  // First, so that the restored catalog counts as older than the data, whatever its version.
  LORSA_ASSIGN_OR_RETURN(const int64_t generation, ReadFolderGeneration(fs, layout));
  LORSA_RETURN_IF_ERROR(WriteFolderGeneration(fs, layout, std::max<int64_t>(generation, 1) + 1));
  LORSA_RETURN_IF_ERROR(RestoreCatalog(fs, command.path, layout.CatalogFile()));
  std::printf("%s\n", layout.CatalogFile().c_str());
  if (!command.set_aside) return absl::OkStatus();
  for (const std::string& path : plan.unknown) {
    LORSA_RETURN_IF_ERROR(
        SetAside(fs, layout, absl::Now(), path, "the restored catalog does not know it"));
  }
  return absl::OkStatus();
}

int Restore(FileSystem& fs, const LorsadCommand& command) {
  const DataLayout layout(command.options.data_folder);
  const absl::Status status = RestoreInto(fs, layout, command);
  return status.ok() ? EXIT_SUCCESS : Fail(status);
}

int Dispatch(FileSystem& fs, const LorsadCommand& command) {
  switch (command.verb) {
    case Verb::kServe:
      return Serve(command.options);
    case Verb::kCheckConfig:
      std::printf("the configuration holds\n");
      return EXIT_SUCCESS;
    case Verb::kBackUp:
      return BackUp(fs, command);
    case Verb::kRestore:
      return Restore(fs, command);
  }
  return EXIT_FAILURE;
}

// The system may refuse threads and memory before there is anybody to tell by a status.
int Run(FileSystem& fs, const LorsadCommand& command) {
  const absl::StatusOr<int> code =
      CatchExceptions([&]() -> absl::StatusOr<int> { return Dispatch(fs, command); });
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace
}  // namespace lorsa::server

int main(int argc, char** argv) {
  lorsa::PosixFileSystem fs;
  const auto command = lorsa::server::ParseLorsadCommand(fs, argc, argv);
  if (const int* exit_code = std::get_if<int>(&command)) return *exit_code;
  return lorsa::server::Run(fs, std::get<lorsa::server::LorsadCommand>(command));
}
