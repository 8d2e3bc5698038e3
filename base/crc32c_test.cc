#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace lorsa {
namespace {

// RFC 3720, appendix B.4.
TEST(Crc32cTest, AgreesWithTheVectorsOfRfc3720) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
}

}  // namespace
}  // namespace lorsa
