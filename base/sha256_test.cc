#include "base/sha256.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lorsa {
namespace {

// FIPS 180-4 examples.
TEST(Sha256Test, AgreesWithPublishedVectors) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256Test, AFileLargerThanTheBufferHashesAsItsContents) {
  PosixFileSystem fs;
  const std::string path = testing::TempDir() + "/sha256_test";
  const std::string contents((1 << 20) + 17, 'x');
  ASSERT_TRUE(WriteFileAtomically(fs, path, contents).ok());
  const auto digest = Sha256OfFile(fs, path);
  ASSERT_TRUE(digest.ok()) << digest.status();
  EXPECT_EQ(*digest, Sha256Hex(contents));
}

// Hashing a huge file used to go on after everybody who wanted it had left.
TEST(Sha256Test, APassOverAFileCanBeStopped) {
  PosixFileSystem fs;
  const std::string path = testing::TempDir() + "/sha256_stop_test";
  ASSERT_TRUE(WriteFileAtomically(fs, path, std::string(3 << 20, 'x')).ok());
  Sha256 hash;
  int pieces = 0;
  const auto hashed = HashFile(fs, path, hash, [&](uint64_t) {
    return ++pieces == 2 ? absl::CancelledError("enough") : absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsCancelled(hashed.status()));
  EXPECT_EQ(pieces, 2);
}

TEST(Sha256Test, AMissingFileIsNotFoundAndNamed) {
  PosixFileSystem fs;
  const auto digest = Sha256OfFile(fs, "/nonexistent/file");
  EXPECT_TRUE(absl::IsNotFound(digest.status()));
  EXPECT_THAT(std::string(digest.status().message()), testing::HasSubstr("/nonexistent/file"));
}

}  // namespace
}  // namespace lorsa
