#include "server/logging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <string>

#include "base/file_system.h"
#include "base/scratch_folder.h"

namespace lorsa::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class LoggingTest : public ::testing::Test {
 protected:
  ~LoggingTest() override { EXPECT_TRUE(SetUpLogging({}).ok()); }
  std::string Read(const std::string& name) {
    return ReadFile(fs_, folder_.Path(name), 1 << 20).value_or("");
  }

  ScratchFolder folder_;
  PosixFileSystem fs_;
};

TEST_F(LoggingTest, LinesOfTheLevelAndAboveAreInTheFileAtOnce) {
  ASSERT_TRUE(SetUpLogging({.level = "warn", .file = folder_.Path("log")}).ok());
  spdlog::info("event=small");
  spdlog::warn("event=large");
  EXPECT_THAT(Read("log"),
              AllOf(HasSubstr("Z level=warning event=large\n"), Not(HasSubstr("event=small"))));
}

TEST_F(LoggingTest, AFileThatHasGrownIsPutAsideAndSoManyAreKept) {
  const LogOptions options{.file = folder_.Path("log"), .max_file_bytes = 1000, .old_files = 2};
  ASSERT_TRUE(SetUpLogging(options).ok());
  for (int i = 0; i < 100; ++i) spdlog::info("event=filler number={} {}", i, std::string(100, 'x'));
  EXPECT_THAT(Read("log"), HasSubstr("number=99 "));
  EXPECT_TRUE(std::filesystem::exists(folder_.Path("log.1")));
  EXPECT_TRUE(std::filesystem::exists(folder_.Path("log.2")));
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("log.3")));
  EXPECT_LE(std::filesystem::file_size(folder_.Path("log.1")), 1000);
}

TEST_F(LoggingTest, AFileThatCannotBeMadeIsAnError) {
  ASSERT_TRUE(WriteFileAtomically(fs_, folder_.Path("file"), "").ok());
  const absl::Status refused = SetUpLogging({.file = folder_.Path("file") + "/log"});
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr(folder_.Path("file")));
}

}  // namespace
}  // namespace lorsa::server
