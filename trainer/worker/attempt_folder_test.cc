#include "trainer/worker/attempt_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/folder_lock.h"
#include "base/scratch_folder.h"

namespace lorsa::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

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
    EXPECT_THAT(Names(), ElementsAre(absl::StrCat("demo.attempt-0002.", ::getpid())));
  }
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(AttemptFolderTest, RemovesWhatKilledWorkersOfTheJobLeftAndNothingElse) {
  for (const char* name :
       {"demo.attempt-0001.7", "demo.attempt-0002.8/staging/left", "demo.attempt-0003",
        "demo.attempt-03.7", "demo.attempt-0003.7.7", "demo2.attempt-0001.7", "notes"}) {
    ASSERT_TRUE(fs_.CreateDirectories(JoinPath(Path(), name)).ok());
  }
  const auto folder = Create("demo", 3);
  EXPECT_THAT(fs_.List(folder->staging_folder()).value(), IsEmpty());
  EXPECT_THAT(Names(),
              UnorderedElementsAre(absl::StrCat("demo.attempt-0003.", ::getpid()),
                                   "demo.attempt-0003", "demo.attempt-03.7",
                                   "demo.attempt-0003.7.7", "demo2.attempt-0001.7", "notes"));
}

// Two servers with one scratch folder took each other's files away.
TEST_F(AttemptFolderTest, AFolderThatIsInUseStays) {
  const std::string living = JoinPath(Path(), "demo.attempt-0001.7");
  ASSERT_TRUE(fs_.CreateDirectories(living).ok());
  const auto lock = FolderLock::Acquire(JoinPath(living, "lock"));
  ASSERT_TRUE(lock.ok());
  Create("demo", 2);
  EXPECT_TRUE(fs_.Exists(living).value());
}

TEST_F(AttemptFolderTest, AJobThatIsNoIdIsRefused) {
  v1::WorkerBootstrap bootstrap;
  bootstrap.set_job("jobs/../../etc");
  EXPECT_TRUE(absl::IsInvalidArgument(AttemptFolder::Create(fs_, Path(), bootstrap).status()));
}

}  // namespace
}  // namespace lorsa::worker
