// Runs the `lorsa` command in this process against a server of make-believe.
#ifndef LORSA_CLIENT_CLI_TESTING_CLI_TEST_BASE_H_
#define LORSA_CLIENT_CLI_TESTING_CLI_TEST_BASE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "client/cli/app.h"
#include "client/cli/session.h"
#include "client/cpp/testing/fake_services.h"

namespace lorsa::cli {

class CliTestBase : public testing::Test {
 protected:
  CliTestBase() {
    folder_ = testing::TempDir() + "/cli_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }

  // Exit code of `lorsa ARGUMENTS…`; out_ and err_ hold what it printed.
  int Run(std::vector<std::string> arguments) {
    out_.str("");
    err_.str("");
    arguments.insert(arguments.begin(), {"--server", server_.address()});
    Environment env{.out = {.stream = out_, .is_terminal = terminal_},
                    .err = {.stream = err_, .is_terminal = terminal_},
                    .in = in_,
                    .fs = fs_,
                    .now = [this] { return now_ += absl::Milliseconds(1); },
                    .random = [this] { return random_ += 0x1111; },
                    .on_interrupt = [this](std::function<void()> f) { interrupt_ = std::move(f); }};
    return RunLorsa(arguments, env);
  }

  client::FakeServer server_;
  PosixFileSystem fs_;
  std::string folder_;
  std::ostringstream out_, err_;
  std::istringstream in_;
  bool terminal_ = false;
  absl::Time now_ = absl::FromUnixSeconds(1'796'000'000);  // 2026-11-30T00:53:20Z
  uint64_t random_ = 0;
  std::function<void()> interrupt_;
};

}  // namespace lorsa::cli

#endif  // LORSA_CLIENT_CLI_TESTING_CLI_TEST_BASE_H_
