#include "server/rpc/fair_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace lorsa::server {
namespace {

using testing::ElementsAre;

class FairQueueTest : public testing::Test {
 protected:
  // Queues a task that notes `number`.
  void Push(const std::string& caller, int64_t number, size_t bytes = 0) {
    queue_.Push(caller, number, {[this, number] { ran_.push_back(number); }, bytes});
  }
  void PopAll() {
    while (!queue_.empty()) queue_.Pop()();
  }

  FairQueue queue_;
  std::vector<int64_t> ran_;
};

TEST_F(FairQueueTest, CallersTakeTurns) {
  for (const int64_t number : {1, 2, 3}) Push("greedy", number);
  Push("a", 4);
  Push("z", 5);
  PopAll();
  EXPECT_THAT(ran_, ElementsAre(4, 1, 5, 2, 3));
}

TEST_F(FairQueueTest, TasksOfOneCallerLeaveInOrder) {
  for (const int64_t number : {1, 2, 3}) Push("a", number);
  PopAll();
  EXPECT_THAT(ran_, ElementsAre(1, 2, 3));
}

TEST_F(FairQueueTest, ARemovedTaskDoesNotCount) {
  Push("a", 1, 10);
  Push("a", 2, 20);
  Push("b", 3, 30);
  EXPECT_TRUE(queue_.Remove("a", 1));
  EXPECT_TRUE(queue_.Remove("b", 3));
  EXPECT_FALSE(queue_.Remove("a", 1));
  EXPECT_FALSE(queue_.Remove("b", 3));
  EXPECT_EQ(queue_.size(), 1u);
  EXPECT_EQ(queue_.bytes(), 20u);
  PopAll();
  EXPECT_THAT(ran_, ElementsAre(2));
  EXPECT_EQ(queue_.bytes(), 0u);
}

}  // namespace
}  // namespace lorsa::server
