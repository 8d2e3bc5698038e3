#include "server/services/activation_roots.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "base/error_details.h"

namespace lorsa::server {
namespace {

namespace fs = std::filesystem;

class ActivationRootsTest : public testing::Test {
 protected:
  ActivationRootsTest() {
    std::string folder = testing::TempDir() + "roots_XXXXXX";
    folder_ = fs::canonical(::mkdtemp(folder.data()));
    fs::create_directories(folder_ / "root/set");
    fs::create_directories(folder_ / "root-2/set");
    fs::create_directories(folder_ / "outside/set");
    std::ofstream(folder_ / "root/file") << "x";
    roots_.emplace(ActivationRoots::Create({folder_ / "root"}).value());
  }
  ~ActivationRootsTest() override { fs::remove_all(folder_); }

  absl::StatusOr<std::string> Resolve(const std::string& path) {
    return roots_->Resolve((folder_ / path).string());
  }

  fs::path folder_;
  std::optional<ActivationRoots> roots_;
};

TEST_F(ActivationRootsTest, AcceptsAFolderBelowARoot) {
  EXPECT_EQ(Resolve("root/set").value(), folder_ / "root/set");
  EXPECT_EQ(Resolve("root/../root/./set/").value(), folder_ / "root/set");
  EXPECT_EQ(Resolve("root/missing").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ActivationRootsTest, DeniesWhatLiesElsewhereWhetherOrNotItExists) {
  for (const char* path : {"outside/set", "root-2/set", "root/../outside/set", "root", "",
                           "outside/missing", "root/../outside/missing"}) {
    const absl::Status status = Resolve(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << path;
    EXPECT_EQ(ReasonOf(status), "OUTSIDE_ACTIVATION_ROOTS");
  }
}

TEST_F(ActivationRootsTest, FollowsLinksBeforeJudging) {
  fs::create_directory_symlink(folder_ / "outside/set", folder_ / "root/link");
  fs::create_directory_symlink(folder_ / "root/set", folder_ / "outside/link");
  EXPECT_EQ(Resolve("root/link").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Resolve("root/link/../set").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Resolve("outside/link").value(), folder_ / "root/set");
}

// A link with a clean name led to a row of the catalog that no proto3 string could hold.
TEST_F(ActivationRootsTest, RefusesAFolderWhoseNameIsNotUtf8) {
  fs::create_directories(folder_ / "root/bad\xff");
  fs::create_directory_symlink(folder_ / "root/bad\xff", folder_ / "root/clean");
  EXPECT_EQ(Resolve("root/clean").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ActivationRootsTest, RefusesWhatIsNoAbsolutePathOfAFolder) {
  EXPECT_EQ(Resolve("root/file").status().code(), absl::StatusCode::kInvalidArgument);
  for (const std::string& path : {std::string(), std::string("root/set"), std::string("../set"),
                                  "/" + std::string(5000, 'x'), std::string("/root\0/set", 10)}) {
    EXPECT_EQ(roots_->Resolve(path).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(ActivationRootsTest, ARootMustBeAFolder) {
  EXPECT_FALSE(ActivationRoots::Create({folder_ / "missing"}).ok());
  EXPECT_FALSE(ActivationRoots::Create({folder_ / "root/file"}).ok());
}

}  // namespace
}  // namespace lorsa::server
