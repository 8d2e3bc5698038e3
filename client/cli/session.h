// One run of the `lorsa` command: where it prints, how, and the server it talks to.
#ifndef LORSA_CLIENT_CLI_SESSION_H_
#define LORSA_CLIENT_CLI_SESSION_H_

#include <functional>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/environment.h"
#include "google/protobuf/message.h"
#include "lorsa/client/client.h"

namespace lorsa::cli {

// Exit codes; the texts of --help name them.
enum ExitCode : int {
  kSuccess = 0,
  kError = 1,
  kUsage = 2,
  kJobFailed = 3,
  kJobCancelled = 4,
  kInterrupted = 130,  // 128 + SIGINT, as shells have it
};

// Lives as long as a command runs; everything it names outlives it.
struct Session {
  Environment& env;
  client::Client& client;
  bool json = false;

  std::ostream& out() { return env.out.stream; }
};

// What to run once the command line is parsed: returns the exit code.
using Action = std::function<absl::StatusOr<int>(Session&)>;

// Adds `name` below `parent`, whose Action becomes `*chosen` when it is on the command line.
CLI::App& AddCommand(CLI::App& parent, const std::string& name, const std::string& description,
                     const std::string& example, Action* chosen, Action action);

// One JSON object on one line: Protobuf's JSON mapping with the field names of the .proto files,
// fields without a value included (64-bit integers are strings, enums are names).
void PrintJson(std::ostream& out, const google::protobuf::Message& message);

// jobs/demo for "demo" and "jobs/demo" in the collection "jobs". INVALID_ARGUMENT if the id is not
// valid.
absl::StatusOr<std::string> ResourceName(const std::string& collection, const std::string& text);

}  // namespace lorsa::cli

#endif  // LORSA_CLIENT_CLI_SESSION_H_
