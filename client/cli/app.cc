#include "client/cli/app.h"

#include <algorithm>
#include <memory>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/session.h"

namespace lorsa::cli {
namespace {

struct GlobalOptions {
  client::ClientOptions client;
  bool json = false;
};

void Describe(CLI::App& app, GlobalOptions* options, Action* chosen) {
  app.require_subcommand(1);
  app.fallthrough();  // Global options may stand after the command too.
  app.set_version_flag("--version", absl::StrCat("lorsa ", LORSA_VERSION));
  app.add_option("--server", options->client.server, "HOST:PORT of lorsad")
      ->envname("LORSA_SERVER")
      ->capture_default_str()
      ->take_last();
  app.add_flag("--json", options->json,
               "Print JSON, one object a line, with the field names of the .proto files");
  app.footer(
      "Exit codes: 0 done, 1 error, 2 wrong usage; `job watch` and `sweep watch` say how jobs "
      "ended.\n"
      "Example: lorsa job submit 'activation_set: \"smollm2-l12\" top_k: 64' --watch");
  AddInfoCommand(app, chosen);
  AddSetCommands(app, chosen);
  AddJobCommands(app, chosen);
  AddSweepCommands(app, chosen);
  AddCheckpointCommands(app, chosen);
}

// What to tell the user of `status`, without a newline at the end.
std::string ErrorText(const absl::Status& status, const client::Client& client) {
  if (!client::IsTransient(status) || !client::ErrorReason(status).empty()) {
    return Printable(status.message());
  }
  if (client.answered()) {
    return absl::StrCat("The connection to ", client.server(), " broke (",
                        Printable(status.message()), "): run the command again.");
  }
  return absl::StrCat("No lorsad answers at ", client.server(),
                      ": start one with `lorsad`, or name another with --server.");
}

int Run(const Action& action, const GlobalOptions& options, Environment& env) {
  client::ClientOptions client_options = options.client;
  client_options.file_system = &env.fs;
  auto client = client::Client::Create(client_options);
  if (!client.ok()) {
    env.err.stream << "lorsa: " << Printable(client.status().message()) << std::endl;
    return kUsage;
  }
  env.on_interrupt([&client] { (*client)->Cancel(); });
  Session session{.env = env, .client = **client, .json = options.json};
  const absl::StatusOr<int> code = action(session);
  env.on_interrupt(nullptr);
  if (code.ok()) return *code;
  if (absl::IsCancelled(code.status())) return kInterrupted;
  env.err.stream << "lorsa: " << ErrorText(code.status(), **client) << std::endl;
  return kError;
}

}  // namespace

int RunLorsa(const std::vector<std::string>& arguments, Environment& env) {
  GlobalOptions options;
  Action chosen;
  CLI::App app("Trains Low-Rank Sparse Attention on a lorsad server", "lorsa");
  Describe(app, &options, &chosen);
  try {
    // CLI11 takes them last first.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    return app.exit(error, env.out.stream, env.err.stream) == 0 ? kSuccess : kUsage;
  }
  return Run(chosen, options, env);
}

}  // namespace lorsa::cli
