#include "server/webhooks/webhook_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scratch_folder.h"

namespace lorsa::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class WebhookKeyTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::string> KeyOf(const std::string& text) {
    EXPECT_TRUE(WriteFileAtomically(fs_, folder_.Path("key"), text).ok());
    return ReadWebhookKey(fs_, folder_.Path("key"));
  }

  PosixFileSystem fs_;
  ScratchFolder folder_;
};

TEST_F(WebhookKeyTest, IsTheTextWithoutTheWhiteSpaceAroundIt) {
  EXPECT_EQ(KeyOf(" sixteen bytes ab\r\n").value(), "sixteen bytes ab");
  EXPECT_EQ(KeyOf(std::string(4096, 'k')).value().size(), 4096);
}

TEST_F(WebhookKeyTest, OneThatIsTooShortOrLongOrMissingIsRefused) {
  const absl::Status status = KeyOf("fifteen bytes a\n ").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(folder_.Path("key")), HasSubstr("15 bytes")));
  EXPECT_FALSE(KeyOf(std::string(4097, 'k')).ok());
  EXPECT_TRUE(absl::IsNotFound(ReadWebhookKey(fs_, folder_.Path("none")).status()));
}

}  // namespace
}  // namespace lorsa::server
