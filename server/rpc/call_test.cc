#include "server/rpc/call.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace lorsa::server {
namespace {

// The first step of a stream held a plain pointer: the call's end on another thread could delete
// the stream while the step still ran.
static_assert(!std::is_constructible_v<CallStep, std::function<void()>>);

struct Reactor : std::enable_shared_from_this<Reactor> {
  explicit Reactor(bool& gone) : gone(gone) {}
  ~Reactor() { gone = true; }
  void EndOfCall() { self.reset(); }
  void Run() {
    EndOfCall();
    was_gone_in_run = gone;
  }

  bool& gone;
  bool was_gone_in_run = true;
  std::shared_ptr<Reactor> self;
};

TEST(CallStepTest, KeepsTheReactorAliveUntilItIsDestroyed) {
  bool gone = false;
  auto reactor = std::make_shared<Reactor>(gone);
  reactor->self = reactor;
  const Reactor& seen = *reactor;
  {
    const CallStep step(std::move(reactor), &Reactor::Run);
    step();
    EXPECT_FALSE(seen.was_gone_in_run);
    EXPECT_FALSE(gone);
  }
  EXPECT_TRUE(gone);
}

}  // namespace
}  // namespace lorsa::server
