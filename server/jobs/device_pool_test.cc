#include "server/jobs/device_pool.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace lorsa::server {
namespace {

// A process that sees `device` and lives as long as this.
class Process {
 public:
  explicit Process(const std::string& device) {
    std::string variable = absl::StrCat(kDeviceVariable, "=", device), name = "sleep", time = "600";
    char* arguments[] = {name.data(), time.data(), nullptr};
    char* environment[] = {variable.data(), nullptr};
    EXPECT_EQ(::posix_spawnp(&pid_, "sleep", nullptr, nullptr, arguments, environment), 0);
    identity_ = IdentifyProcess(pid_).value();
    // The kernel lets the parent go on before the child's environment is in place.
    const std::string path = absl::StrCat("/proc/", pid_, "/environ");
    while (std::ifstream(path).peek() == std::ifstream::traits_type::eof()) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  ~Process() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  const ProcessIdentity& identity() const { return identity_; }

 private:
  pid_t pid_ = 0;
  ProcessIdentity identity_;
};

TEST(DevicePoolTest, EachProcessGetsADeviceOfItsOwnUntilThereAreNoMore) {
  DevicePool pool({"0", "1"});
  const Process first(pool.Choose());
  pool.Hold(first.identity(), "0");
  {
    EXPECT_EQ(pool.Choose(), "1");
    const Process second("1");
    pool.Hold(second.identity(), "1");
    EXPECT_EQ(pool.Choose(), "0");
  }
  EXPECT_EQ(pool.Choose(), "1");
}

TEST(DevicePoolTest, WorkersOfAnEarlierServerKeepTheirs) {
  const Process running("0");
  DevicePool pool({"0", "1"});
  EXPECT_EQ(pool.Choose(), "0");
  pool.Adopt(running.identity());
  pool.Adopt(running.identity());
  EXPECT_EQ(pool.Choose(), "1");
}

}  // namespace
}  // namespace lorsa::server
