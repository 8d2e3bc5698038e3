#include "server/services/set_folders.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error_details.h"
#include "base/scratch_folder.h"

namespace lorsa::server {
namespace {

TEST(FolderClaimsTest, UploadsShareAFolderThatARegistrationHasAlone) {
  FolderClaims claims;
  auto first = claims.Share("/sets/a"), second = claims.Share("/sets/a");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(ReasonOf(claims.TakeAlone("/sets/a").status()), "SET_BUSY");
  EXPECT_TRUE(claims.TakeAlone("/sets/b").ok());
  *first = nullptr;
  EXPECT_FALSE(claims.TakeAlone("/sets/a").ok());
  *second = nullptr;
  auto alone = claims.TakeAlone("/sets/a");
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(ReasonOf(claims.Share("/sets/a").status()), "SET_BUSY");
  EXPECT_FALSE(claims.TakeAlone("/sets/a").ok());
  *alone = nullptr;
  EXPECT_TRUE(claims.Share("/sets/a").ok());
}

TEST(FolderClaimsTest, AFolderIsTheSameByWhateverPath) {
  const ScratchFolder scratch;
  std::filesystem::create_directories(scratch.Path("data"));
  std::filesystem::create_directory_symlink(scratch.Path("data"), scratch.Path("link"));
  FolderClaims claims;
  // It is made after it was claimed.
  const auto upload = claims.Share(scratch.Path("link/set"));
  ASSERT_TRUE(upload.ok());
  std::filesystem::create_directories(scratch.Path("data/set"));
  EXPECT_FALSE(claims.TakeAlone(scratch.Path("data/set")).ok());
  EXPECT_TRUE(IsSameFolder(scratch.Path("data/set"), scratch.Path("link/set")));
  EXPECT_FALSE(IsSameFolder(scratch.Path("data/set"), scratch.Path("data")));
  EXPECT_FALSE(IsSameFolder(scratch.Path("data/set"), scratch.Path("gone")));
}

}  // namespace
}  // namespace lorsa::server
