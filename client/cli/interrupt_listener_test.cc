#include "client/cli/interrupt_listener.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <iostream>

#include "absl/synchronization/notification.h"
#include "client/cli/session.h"

namespace lorsa::cli {
namespace {

// Each case ends its own process, since a listener takes SIGINT over for good.
class InterruptListenerDeathTest : public testing::Test {
 protected:
  InterruptListenerDeathTest() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

[[noreturn]] void InterruptWithoutHandler() {
  new InterruptListener();
  kill(getpid(), SIGINT);
  while (true) pause();
}

[[noreturn]] void InterruptTwice() {
  auto& listener = *new InterruptListener();
  absl::Notification handled;
  listener.SetHandler([&] { handled.Notify(); });
  kill(getpid(), SIGINT);
  handled.WaitForNotification();
  std::cerr << "handled" << std::flush;
  kill(getpid(), SIGINT);
  while (true) pause();
}

TEST_F(InterruptListenerDeathTest, WithoutAHandlerTheProcessEnds) {
  EXPECT_EXIT(InterruptWithoutHandler(), testing::ExitedWithCode(kInterrupted), "");
}

TEST_F(InterruptListenerDeathTest, TheHandlerRunsOnceAndTheNextInterruptEndsTheProcess) {
  EXPECT_EXIT(InterruptTwice(), testing::ExitedWithCode(kInterrupted), "handled");
}

}  // namespace
}  // namespace lorsa::cli
