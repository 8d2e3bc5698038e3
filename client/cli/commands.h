// The nouns of the `lorsa` command. Each function adds one to `app`; when the command line names
// one of its verbs, `*chosen` is what to run.
#ifndef LORSA_CLIENT_CLI_COMMANDS_H_
#define LORSA_CLIENT_CLI_COMMANDS_H_

#include "CLI/App.hpp"
#include "client/cli/session.h"

namespace lorsa::cli {

void AddInfoCommand(CLI::App& app, Action* chosen);
void AddSetCommands(CLI::App& app, Action* chosen);
void AddJobCommands(CLI::App& app, Action* chosen);
void AddSweepCommands(CLI::App& app, Action* chosen);
void AddCheckpointCommands(CLI::App& app, Action* chosen);

}  // namespace lorsa::cli

#endif  // LORSA_CLIENT_CLI_COMMANDS_H_
