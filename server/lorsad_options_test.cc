#include "server/lorsad_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lorsa::server {
namespace {

std::variant<LorsadOptions, int> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "lorsad");
  return ParseLorsadOptions(static_cast<int>(arguments.size()), arguments.data());
}

TEST(LorsadOptions, ListenOnLoopbackUnlessToldOtherwise) {
  const auto options = std::get<LorsadOptions>(Parse({}));
  EXPECT_TRUE(IsLoopback(ParseListenAddress(options.listen)->host));
  EXPECT_EQ(options.data_folder, "lorsa-data");
  EXPECT_EQ(options.max_running_jobs, 1);
}

TEST(LorsadOptions, AreTakenFromTheCommandLine) {
  const auto options = std::get<LorsadOptions>(Parse(
      {"--data-dir", "d", "--listen", "[::1]:0", "--activation-root", "/", "--activation-root",
       "/tmp", "--worker-binary", "/bin/sh", "--max-running-jobs", "3", "--log-level", "debug"}));
  EXPECT_EQ(options.data_folder, "d");
  EXPECT_EQ(options.listen, "[::1]:0");
  EXPECT_THAT(options.activation_roots, testing::ElementsAre("/", "/tmp"));
  EXPECT_EQ(options.worker_binary, "/bin/sh");
  EXPECT_EQ(options.max_running_jobs, 3);
  EXPECT_EQ(options.log_level, "debug");
}

TEST(LorsadOptions, HelpAndVersionEndWithZeroAndMistakesDoNot) {
  EXPECT_EQ(std::get<int>(Parse({"--help"})), 0);
  EXPECT_EQ(std::get<int>(Parse({"--version"})), 0);
  for (const auto& arguments :
       std::vector<std::vector<const char*>>{{"--listen", "here"},
                                             {"--listen", "127.0.0.1:70000"},
                                             {"--max-running-jobs", "0"},
                                             {"--log-level", "loud"},
                                             {"--activation-root", "/none"},
                                             {"--worker-binary", "/tmp"},
                                             {"--no-such-flag"}}) {
    const auto parsed = Parse(arguments);
    ASSERT_TRUE(std::holds_alternative<int>(parsed)) << arguments.front();
    EXPECT_NE(std::get<int>(parsed), 0) << arguments.front();
  }
}

TEST(ListenAddress, HasAHostAndAPort) {
  EXPECT_EQ(ParseListenAddress("localhost:0")->port, 0);
  EXPECT_EQ(ParseListenAddress("[::]:7070")->host, "[::]");
  for (const char* listen : {"", ":1", "host", "host:", "host:-1", "host:65536", "host:x"}) {
    EXPECT_FALSE(ParseListenAddress(listen).ok()) << listen;
  }
}

TEST(Loopback, IsTold) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "localhost", "[::1]"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"0.0.0.0", "[::]", "10.0.0.1", "example.org", "1270.0.0.1"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

}  // namespace
}  // namespace lorsa::server
