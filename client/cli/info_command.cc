#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/table.h"

namespace lorsa::cli {
namespace {

absl::StatusOr<int> ShowInfo(Session& session) {
  LORSA_ASSIGN_OR_RETURN(
      const v1::ServerInfo info,
      session.client.Call(&v1::ServerInfoService::Stub::GetServerInfo, v1::GetServerInfoRequest()));
  if (session.json) {
    PrintJson(session.out(), info);
    return kSuccess;
  }
  Table table;
  table.AddRow({"server", session.client.server()});
  table.AddRow({"version", info.version()});
  table.AddRow({"started", FormatTime(info.start_time())});
  table.AddRow(
      {"jobs", absl::StrCat(info.running_jobs(), " running (at most ", info.max_running_jobs(),
                            "), ", info.queued_jobs(), " queued")});
  table.AddRow(
      {"machine", absl::StrCat(info.cpu_cores(), " cores, ", FormatBytes(info.memory_bytes()),
                               " memory, ", FormatBytes(info.data_free_bytes()), " free on disk (",
                               FormatBytes(info.disk_reserve_bytes()), " in reserve)")});
  table.AddRow({"activation roots", absl::StrJoin(info.activation_roots(), ", ")});
  for (const v1::ServerCondition& condition : info.conditions()) {
    table.AddRow(
        {"condition", absl::StrCat(condition.reason(), " since ", FormatTime(condition.since()),
                                   ": ", Printable(condition.message()))});
  }
  table.Print(session.out());
  return kSuccess;
}

}  // namespace

void AddInfoCommand(CLI::App& app, Action* chosen) {
  AddCommand(app, "info", "Version, load and limits of the server", "lorsa info", chosen, ShowInfo);
}

}  // namespace lorsa::cli
