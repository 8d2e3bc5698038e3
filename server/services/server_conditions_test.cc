#include "server/services/server_conditions.h"

#include <gtest/gtest.h>

namespace lorsa::server {
namespace {

TEST(ServerConditions, HoldFromTheirFirstMessageToAnEmptyOne) {
  absl::Time now = absl::FromUnixSeconds(100);
  ServerConditions conditions([&] { return now; });
  EXPECT_TRUE(conditions.All().empty());
  conditions.Set(kDiskReserve, "");
  EXPECT_FALSE(conditions.Holds(kDiskReserve));

  conditions.Set(kDiskReserve, "full");
  now += absl::Seconds(5);
  conditions.Set(kDiskReserve, "fuller");
  conditions.Set(kCatalogUnreadable, "unreadable");
  EXPECT_EQ(conditions.Message(kDiskReserve), "fuller");
  const auto all = conditions.All();
  ASSERT_EQ(all.size(), 2);
  EXPECT_EQ(all[0].reason(), kCatalogUnreadable);
  EXPECT_EQ(all[0].since().seconds(), 105);
  EXPECT_EQ(all[1].reason(), kDiskReserve);
  EXPECT_EQ(all[1].since().seconds(), 100);

  conditions.Set(kDiskReserve, "");
  EXPECT_FALSE(conditions.Holds(kDiskReserve));
  EXPECT_TRUE(conditions.Holds(kCatalogUnreadable));
}

}  // namespace
}  // namespace lorsa::server
