#include "base/process_identity.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
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
  EXPECT_TRUE(IsAlive(*self).value());
}

TEST(ProcessIdentityTest, AReusedPidIsAnotherProcess) {
  ProcessIdentity other = *IdentifySelf();
  other.start_ticks -= 1;
  EXPECT_FALSE(IsAlive(other).value());
  other = *IdentifySelf();
  other.boot_id = "of another boot";
  EXPECT_FALSE(IsAlive(other).value());
}

TEST(ProcessIdentityTest, AZombieAndAReapedProcessAreNotAlive) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const auto identity = IdentifyProcess(child);
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_TRUE(IsAlive(*identity).value());
  ASSERT_EQ(kill(child, SIGKILL), 0);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, child, &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(IsAlive(*identity).value());  // a zombie
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(IsAlive(*identity).value());
}

// A process that could not be looked at counted as dead.
TEST(ProcessIdentityTest, WithoutADescriptorALivingProcessIsUnknownAndADeadOneDead) {
  const ProcessIdentity self = *IdentifySelf();
  ProcessIdentity gone = self;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  gone.pid = child;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto alive = IsAlive(self);
  const auto dead = IsAlive(gone);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(absl::IsUnavailable(alive.status())) << alive.status();
  ASSERT_TRUE(dead.ok()) << dead.status();
  EXPECT_FALSE(*dead);
}

}  // namespace
}  // namespace lorsa
