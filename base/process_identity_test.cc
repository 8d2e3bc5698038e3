#include "base/process_identity.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lorsa {
namespace {

TEST(ProcessIdentityTest, ThisProcessIsAlive) {
  const auto self = IdentifySelf();
  ASSERT_TRUE(self.ok()) << self.status();
  EXPECT_EQ(self->pid, getpid());
  EXPECT_FALSE(self->boot_id.empty());
  EXPECT_GT(self->start_ticks, 0);
  EXPECT_TRUE(IsAlive(*self));
}

TEST(ProcessIdentityTest, AReusedPidIsAnotherProcess) {
  ProcessIdentity other = *IdentifySelf();
  other.start_ticks -= 1;
  EXPECT_FALSE(IsAlive(other));
  other = *IdentifySelf();
  other.boot_id = "of another boot";
  EXPECT_FALSE(IsAlive(other));
}

TEST(ProcessIdentityTest, AZombieAndAReapedProcessAreNotAlive) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const auto identity = IdentifyProcess(child);
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_TRUE(IsAlive(*identity));
  ASSERT_EQ(kill(child, SIGKILL), 0);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, child, &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(IsAlive(*identity));  // a zombie
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(IsAlive(*identity));
}

}  // namespace
}  // namespace lorsa
