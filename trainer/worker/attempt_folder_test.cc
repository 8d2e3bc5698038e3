#include "trainer/worker/attempt_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scratch_folder.h"

namespace lorsa::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AttemptFolderTest : public testing::Test {
 protected:
  std::unique_ptr<AttemptFolder> Create(const std::string& job, int attempt) {
    v1::WorkerBootstrap bootstrap;
    bootstrap.set_job("jobs/" + job);
    bootstrap.set_attempt(attempt);
    auto folder = AttemptFolder::Create(fs_, Path(), bootstrap);
    EXPECT_TRUE(folder.ok()) << folder.status();
    return folder.ok() ? *std::move(folder) : nullptr;
  }
  std::string Path() const { return scratch_.Path("made/if/absent"); }
  std::vector<std::string> Names() { return fs_.List(Path()).value(); }

  PosixFileSystem fs_;
  ScratchFolder scratch_;
};

TEST_F(AttemptFolderTest, IsThereAsLongAsTheAttempt) {
  {
    const auto folder = Create("demo", 2);
    EXPECT_TRUE(fs_.Exists(folder->staging_folder()).value());
    EXPECT_THAT(Names(), ElementsAre("demo.attempt-0002"));
  }
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(AttemptFolderTest, RemovesWhatKilledWorkersOfTheJobLeftAndNothingElse) {
  for (const char* name : {"demo.attempt-0001", "demo.attempt-0002", "demo.attempt-0004",
                           "demo2.attempt-0001", "demo.attempt-0001.attempt-0001", "notes"}) {
    ASSERT_TRUE(fs_.CreateDirectories(JoinPath(Path(), name)).ok());
  }
  ASSERT_TRUE(fs_.CreateDirectories(JoinPath(Path(), "demo.attempt-0003/staging/left")).ok());
  const auto folder = Create("demo", 3);
  EXPECT_THAT(fs_.List(folder->staging_folder()).value(), IsEmpty());
  EXPECT_THAT(Names(), ElementsAre("demo.attempt-0001.attempt-0001", "demo.attempt-0003",
                                   "demo.attempt-0004", "demo2.attempt-0001", "notes"));
}

TEST_F(AttemptFolderTest, AJobThatIsNoIdIsRefused) {
  v1::WorkerBootstrap bootstrap;
  bootstrap.set_job("jobs/../../etc");
  EXPECT_TRUE(absl::IsInvalidArgument(AttemptFolder::Create(fs_, Path(), bootstrap).status()));
}

}  // namespace
}  // namespace lorsa::worker
