// The `lorsa` command, from its arguments to its exit code.
#ifndef LORSA_CLIENT_CLI_APP_H_
#define LORSA_CLIENT_CLI_APP_H_

#include <string>
#include <vector>

#include "client/cli/environment.h"

namespace lorsa::cli {

// Runs one command; `arguments` without the program's name. Returns its exit code (session.h).
int RunLorsa(const std::vector<std::string>& arguments, Environment& env);

}  // namespace lorsa::cli

#endif  // LORSA_CLIENT_CLI_APP_H_
