#include "server/jobs/log_reader.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"

namespace lorsa::server {
namespace {

class LogReaderTest : public ::testing::Test {
 protected:
  LogReaderTest() {
    std::string folder = ::testing::TempDir() + "logs_XXXXXX";
    folder_ = ::mkdtemp(folder.data());
  }
  ~LogReaderTest() override { std::filesystem::remove_all(folder_); }

  DataLayout Layout() const { return DataLayout(folder_); }
  LogReader Reader() { return LogReader(fs_, Layout(), "demo"); }
  void Write(int attempt, const std::string& text) {
    ASSERT_TRUE(fs_.CreateDirectories(Layout().AttemptFolder("demo", attempt)).ok());
    ASSERT_TRUE(WriteFileAtomically(fs_, Layout().LogFile("demo", attempt), text).ok());
  }
  // "1:text" for a chunk of attempt 1, "" for nothing.
  std::string Next(LogReader& reader, int attempts, bool finished) {
    const auto chunk = reader.Next(attempts, finished).value();
    return chunk.has_value() ? absl::StrCat(chunk->attempt, ":", chunk->text) : "";
  }

  PosixFileSystem fs_;
  std::string folder_;
};

TEST_F(LogReaderTest, HandsOutWholeLinesAsTheyCome) {
  LogReader reader = Reader();
  EXPECT_EQ(Next(reader, 1, false), "");
  Write(1, "one\ntw");
  EXPECT_EQ(Next(reader, 1, false), "1:one\n");
  EXPECT_EQ(Next(reader, 1, false), "");
  Write(1, "one\ntwo\n");
  EXPECT_EQ(Next(reader, 1, false), "1:two\n");
  EXPECT_EQ(Next(reader, 1, false), "");
}

TEST_F(LogReaderTest, LastLineWithoutItsEndComesWhenNoMoreWill) {
  Write(1, "one\ntwo");
  LogReader reader = Reader();
  EXPECT_EQ(Next(reader, 1, true), "1:one\n");
  EXPECT_EQ(Next(reader, 1, true), "1:two");
  EXPECT_EQ(Next(reader, 1, true), "");
}

TEST_F(LogReaderTest, AReaderGoesOnFromTheEndOfAnyPiece) {
  Write(1, "first\n");
  Write(2, "one\ntw\xff\nthree");
  LogReader reader = Reader();
  std::string all;
  while (const auto chunk = reader.Next(2, true).value()) {
    absl::StrAppend(&all, chunk->attempt, ":", chunk->text);
    LogReader other(fs_, Layout(), "demo", chunk->end);
    LogReader same(reader);
    EXPECT_EQ(Next(other, 2, true), Next(same, 2, true));
  }
  EXPECT_EQ(all, "1:first\n2:one\ntw?\n2:three");
}

TEST_F(LogReaderTest, AfterAPlaceBeyondALogTheNextAttemptFollows) {
  Write(1, "first\n");
  Write(2, "second\n");
  LogReader reader(fs_, Layout(), "demo", {1, 1000});
  EXPECT_EQ(Next(reader, 2, true), "2:second\n");
  LogReader none(fs_, Layout(), "demo", {3, 0});
  EXPECT_EQ(Next(none, 2, true), "");
}

TEST_F(LogReaderTest, GoesThroughTheAttemptsInOrderAndSkipsOneWithoutALog) {
  Write(1, "first");
  Write(3, "third\n");
  LogReader reader = Reader();
  EXPECT_EQ(Next(reader, 3, false), "1:first");
  EXPECT_EQ(Next(reader, 3, false), "3:third\n");
  EXPECT_EQ(Next(reader, 3, false), "");
}

TEST_F(LogReaderTest, LongLineIsCutAndNothingIsLost) {
  const std::string line(3 * kMaxLogChunkBytes + 17, 'x');
  Write(1, line + "\n");
  LogReader reader = Reader();
  std::string all;
  for (auto chunk = reader.Next(1, false).value(); chunk.has_value();
       chunk = reader.Next(1, false).value()) {
    EXPECT_LE(chunk->text.size(), kMaxLogChunkBytes);
    all += chunk->text;
  }
  EXPECT_EQ(all, line + "\n");
}

TEST_F(LogReaderTest, BytesThatAreNoUtf8AreReplaced) {
  Write(1, "a\xff\xfez\n");
  LogReader reader = Reader();
  EXPECT_EQ(Next(reader, 1, false), "1:a??z\n");
}

TEST_F(LogReaderTest, TailIsTheLastWholeLinesThatFit) {
  Write(1, "first line\nsecond\nthird\n");
  EXPECT_EQ(LogTail(fs_, Layout().LogFile("demo", 1), 15), "second\nthird");
  EXPECT_EQ(LogTail(fs_, Layout().LogFile("demo", 1), 1000), "first line\nsecond\nthird");
  EXPECT_EQ(LogTail(fs_, Layout().LogFile("demo", 2), 1000), "");
}

}  // namespace
}  // namespace lorsa::server
