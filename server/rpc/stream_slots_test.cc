#include "server/rpc/stream_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lorsa::server {
namespace {

using testing::HasSubstr;

Caller Client(const std::string& host) { return {.host = host}; }
Caller Worker(const std::string& job) {
  return {.host = "ipv4:127.0.0.1", .worker = AttemptKey{.job_id = job, .attempt = 1}};
}

// How many slots `caller` gets, and keeps in `held`.
int TakeAll(StreamSlots& slots, const Caller& caller, std::vector<std::shared_ptr<void>>& held) {
  int taken = 0;
  for (auto slot = slots.Take(caller); slot.ok(); slot = slots.Take(caller)) {
    held.push_back(*slot);
    ++taken;
  }
  return taken;
}

TEST(StreamSlotsTest, BoundsEachClientAllClientsAndEachWorker) {
  StreamSlots slots("streams", {.in_all = 5, .per_client = 3, .per_worker = 2});
  std::vector<std::shared_ptr<void>> held;
  EXPECT_EQ(TakeAll(slots, Client("a"), held), 3);
  EXPECT_THAT(slots.Take(Client("a")).status().message(), HasSubstr("at most 3 to client a"));
  EXPECT_EQ(slots.Shortage(), "");
  EXPECT_EQ(TakeAll(slots, Client("b"), held), 2);
  EXPECT_THAT(slots.Take(Client("b")).status().message(), HasSubstr("at most 5 to clients"));
  EXPECT_THAT(slots.Shortage(), HasSubstr("all 5 streams"));
  EXPECT_EQ(TakeAll(slots, Worker("x"), held), 2);
  EXPECT_EQ(TakeAll(slots, Worker("y"), held), 2);
  EXPECT_TRUE(absl::IsResourceExhausted(slots.Take(Worker("y")).status()));
}

TEST(StreamSlotsTest, GivesSlotsBackAlsoAfterItIsGone) {
  std::vector<std::shared_ptr<void>> held;
  {
    StreamSlots slots("streams", {.in_all = 2, .per_client = 2});
    EXPECT_EQ(TakeAll(slots, Client("a"), held), 2);
    held.clear();
    EXPECT_EQ(TakeAll(slots, Client("b"), held), 2);
  }
  held.clear();
}

}  // namespace
}  // namespace lorsa::server
