// With shell scripts as workers.
#include "server/jobs/local_process_launcher.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file_system.h"

namespace lorsa::server {
namespace {

using ::testing::HasSubstr;

class LocalProcessLauncherTest : public ::testing::Test {
 protected:
  LocalProcessLauncherTest() {
    std::string folder = ::testing::TempDir() + "launcher_XXXXXX";
    folder_ = ::mkdtemp(folder.data());
  }
  ~LocalProcessLauncherTest() override { std::filesystem::remove_all(folder_); }

  std::string Script(const std::string& body) {
    const std::string path = JoinPath(folder_, "worker.sh");
    EXPECT_TRUE(WriteFileAtomically(fs_, path, "#!/bin/sh\n" + body + "\n", 0755).ok());
    return path;
  }
  LaunchRequest Request() const {
    return {.bootstrap_file = JoinPath(folder_, "bootstrap.textproto"), .log_file = LogFile()};
  }
  std::string LogFile() const { return JoinPath(folder_, "worker.log"); }
  std::string Log() { return ReadFile(fs_, LogFile(), 1 << 20).value_or(""); }

  // Waits for what must come, however slow the machine.
  template <typename Done>
  bool Await(Done done) {
    for (int i = 0; i < 30'000; ++i) {
      if (done()) return true;
      absl::SleepFor(absl::Milliseconds(1));
    }
    return false;
  }
  ProcessStatus AwaitEnd(Launcher& launcher, const ProcessIdentity& process) {
    ProcessStatus status;
    Await([&] { return !(status = launcher.Check(process)).alive; });
    return status;
  }

  PosixFileSystem fs_;
  std::string folder_;
};

TEST_F(LocalProcessLauncherTest, PassesTheBootstrapFileAndAppendsOutputToTheLog) {
  ASSERT_TRUE(WriteFileAtomically(fs_, LogFile(), "before\n").ok());
  LocalProcessLauncher launcher(Script("echo \"$1\"; echo error >&2; exit 3"));
  const auto process = launcher.Launch(Request());
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(AwaitEnd(launcher, *process).ending, "exited with status 3");
  EXPECT_EQ(Log(), absl::StrCat("before\n--bootstrap=", Request().bootstrap_file, "\nerror\n"));
}

TEST_F(LocalProcessLauncherTest, AWrapperGetsTheBootstrapOnStdinAndTheRanksAsArgument) {
  ASSERT_TRUE(WriteFileAtomically(fs_, Request().bootstrap_file, "the bootstrap\n").ok());
  LocalProcessLauncher launcher(
      Script("echo $# $1; cat"), {}, [] { return std::nullopt; }, WorkerProgram::kWrapper);
  LaunchRequest request = Request();
  request.ranks = 3;
  const auto process = launcher.Launch(request);
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(AwaitEnd(launcher, *process).ending, "exited with status 0");
  EXPECT_EQ(Log(), "1 3\nthe bootstrap\n");
}

TEST_F(LocalProcessLauncherTest, WithDevicesEachWorkerSeesOne) {
  ::setenv(kDeviceVariable, "of the server", 1);
  LocalProcessLauncher launcher(Script("echo \"<$CUDA_VISIBLE_DEVICES>\"; exec sleep 600"),
                                {"5", "7"});
  const auto first = launcher.Launch(Request()).value();
  const auto second = launcher.Launch(Request()).value();
  EXPECT_TRUE(Await([&] { return Log().size() == 8; }));
  EXPECT_THAT(Log(), AllOf(HasSubstr("<5>"), HasSubstr("<7>")));
  launcher.Kill(first);
  launcher.Kill(second);
  AwaitEnd(launcher, first);
  AwaitEnd(launcher, second);
  LocalProcessLauncher without(Script("echo \"<$CUDA_VISIBLE_DEVICES>\""));
  AwaitEnd(without, without.Launch(Request()).value());
  EXPECT_THAT(Log(), HasSubstr("<of the server>"));
  ::unsetenv(kDeviceVariable);
}

TEST_F(LocalProcessLauncherTest, OnlyAWrapperGetsTheWholeEnvironment) {
  ::setenv("http_proxy", "http://proxy", 1);
  ::setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  ::setenv("OMP_NUM_THREADS", "3", 1);
  const std::string script = Script("echo \"<$http_proxy$OMPI_COMM_WORLD_SIZE$OMP_NUM_THREADS>\"");
  ASSERT_TRUE(WriteFileAtomically(fs_, Request().bootstrap_file, "").ok());
  LocalProcessLauncher worker(script);
  AwaitEnd(worker, worker.Launch(Request()).value());
  LocalProcessLauncher wrapper(
      script, {}, [] { return std::nullopt; }, WorkerProgram::kWrapper);
  AwaitEnd(wrapper, wrapper.Launch(Request()).value());
  EXPECT_EQ(Log(), "<3>\n<http://proxy43>\n");
  for (const char* name : {"http_proxy", "OMPI_COMM_WORLD_SIZE", "OMP_NUM_THREADS"}) {
    ::unsetenv(name);
  }
}

TEST_F(LocalProcessLauncherTest, SeveralRanksAreStartedByMpirun) {
  const std::string worker = Script("echo worker \"$1\"");
  // An mpirun that starts one rank, and tells how many it should.
  const std::string mpirun =
      "#!/bin/sh\necho ranks $2\nwhile [ \"$1\" != " + worker + " ]; do shift; done\nexec \"$@\"\n";
  ASSERT_TRUE(WriteFileAtomically(fs_, JoinPath(folder_, "mpirun"), mpirun, 0755).ok());
  const std::string path = ::getenv("PATH");
  ::setenv("PATH", absl::StrCat(folder_, ":", path).c_str(), 1);
  LocalProcessLauncher launcher(worker);
  LaunchRequest request = Request();
  request.ranks = 3;
  const auto process = launcher.Launch(request);
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(AwaitEnd(launcher, *process).ending, "exited with status 0");
  EXPECT_EQ(Log(), absl::StrCat("ranks 3\nworker --bootstrap=", request.bootstrap_file, "\n"));
}

TEST_F(LocalProcessLauncherTest, AMissingMpirunIsAnObstacleForRanksAlone) {
  const std::string path = ::getenv("PATH");
  const LocalProcessLauncher launcher(Script("true"));
  ::setenv("PATH", folder_.c_str(), 1);
  EXPECT_THAT(launcher.RanksObstacle(), HasSubstr("openmpi-bin"));
  EXPECT_EQ(launcher.Obstacle(), "");
  ASSERT_TRUE(WriteFileAtomically(fs_, JoinPath(folder_, "mpirun"), "#!/bin/sh\n", 0755).ok());
  EXPECT_EQ(launcher.RanksObstacle(), "");
  ::setenv("PATH", path.c_str(), 1);
}

TEST_F(LocalProcessLauncherTest, MissingMpirunIsAnErrorThatNamesItsPackage) {
  const std::string path = ::getenv("PATH");
  ::setenv("PATH", folder_.c_str(), 1);
  LaunchRequest request = Request();
  request.ranks = 2;
  const auto status = LocalProcessLauncher(Script("true")).Launch(request).status();
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("openmpi-bin"));
}

TEST_F(LocalProcessLauncherTest, WorkerHasASessionAndNoInheritedDescriptorOrBlockedSignal) {
  // One left open on purpose: without close-on-exec.
  const int leaked = ::open("/dev/null", O_RDONLY);
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  LocalProcessLauncher launcher(
      Script("ls -l /proc/self/fd; grep SigBlk /proc/self/status;"
             " echo session $(cut -d' ' -f6 /proc/$$/stat) pid $$;"
             " echo done"));
  const auto process = launcher.Launch(Request());
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::close(leaked);
  ASSERT_TRUE(process.ok()) << process.status();
  AwaitEnd(launcher, *process);
  const std::string log = Log();
  EXPECT_THAT(log, HasSubstr("0 -> /dev/null"));
  EXPECT_THAT(log, HasSubstr(absl::StrCat("1 -> ", LogFile())));
  EXPECT_THAT(log, HasSubstr(absl::StrCat("2 -> ", LogFile())));
  // 3 is what `ls` itself reads the folder with.
  EXPECT_EQ(log.find(" 4 -> "), std::string::npos) << log;
  EXPECT_EQ(log.find(absl::StrCat(" ", leaked, " -> /dev/null")), std::string::npos) << log;
  EXPECT_THAT(log, HasSubstr("SigBlk:\t0000000000000000"));
  EXPECT_THAT(log, HasSubstr(absl::StrCat("session ", process->pid, " pid ", process->pid)));
}

TEST_F(LocalProcessLauncherTest, KillEndsTheProcessAndNoZombieStays) {
  LocalProcessLauncher launcher(Script("exec sleep 600"));
  const auto process = launcher.Launch(Request());
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_TRUE(launcher.Check(*process).alive);
  launcher.Kill(*process);
  EXPECT_THAT(AwaitEnd(launcher, *process).ending,
              ::testing::StartsWith("was killed by signal 9 (Killed)"));
  EXPECT_FALSE(fs_.Exists(absl::StrCat("/proc/", process->pid)).value());
  EXPECT_FALSE(launcher.Check(*process).alive);
  launcher.Kill(*process);
}

// Only Check collected children, so a worker whose job had ended stayed a zombie.
TEST_F(LocalProcessLauncherTest, ProcessThatNobodyChecksLeavesNoZombie) {
  LocalProcessLauncher launcher(Script("exit 0"));
  const auto process = launcher.Launch(Request());
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_TRUE(Await([&] {
    launcher.ReapAllBut({});
    return !fs_.Exists(absl::StrCat("/proc/", process->pid)).value();
  }));
}

TEST_F(LocalProcessLauncherTest, EndingOfAWatchedProcessIsLeftToCheck) {
  LocalProcessLauncher launcher(Script("exit 3"));
  const auto process = launcher.Launch(Request());
  ASSERT_TRUE(process.ok()) << process.status();
  ASSERT_TRUE(Await([&] { return !IsAlive(*process).value(); }));
  launcher.ReapAllBut({*process});
  EXPECT_EQ(launcher.Check(*process).ending, "exited with status 3");
}

TEST_F(LocalProcessLauncherTest, KillBecauseMemoryRanOutIsToldApart) {
  std::optional<int64_t> kills = 3;
  LocalProcessLauncher launcher(Script("exec sleep 60"), {}, [&] { return kills; });
  const auto end = [&] {
    const auto process = launcher.Launch(Request());
    launcher.Kill(*process);
    return AwaitEnd(launcher, *process);
  };
  EXPECT_FALSE(end().out_of_memory);
  const auto process = launcher.Launch(Request());
  kills = 4;  // The kernel's own kill looks the same, but is counted.
  launcher.Kill(*process);
  const ProcessStatus status = AwaitEnd(launcher, *process);
  EXPECT_TRUE(status.out_of_memory);
  EXPECT_EQ(status.ending, "was killed by signal 9 (Killed) because memory ran out");
  kills = std::nullopt;
  EXPECT_EQ(end().ending, "was killed by signal 9 (Killed), perhaps because memory ran out");
  EXPECT_FALSE(end().out_of_memory);
}

// A rank's end is known from mpirun's exit code alone.
TEST_F(LocalProcessLauncherTest, KillOfARankBecauseMemoryRanOutIsToldApart) {
  std::optional<int64_t> kills = 0;
  LocalProcessLauncher launcher(Script("exit 137"), {}, [&] { return (*kills)++; });
  const auto process = launcher.Launch(Request());
  EXPECT_TRUE(AwaitEnd(launcher, *process).out_of_memory);
}

TEST_F(LocalProcessLauncherTest, OtherProcessWithTheSamePidIsNeitherAliveNorKilled) {
  LocalProcessLauncher launcher(Script("exec sleep 600"));
  const auto process = launcher.Launch(Request());
  ASSERT_TRUE(process.ok()) << process.status();
  ProcessIdentity other = *process;
  other.start_ticks += 1;
  launcher.Kill(other);
  EXPECT_TRUE(launcher.Check(*process).alive);
  other = *process;
  other.boot_id = "another boot";
  EXPECT_FALSE(IsAlive(other).value());
  launcher.Kill(*process);
  AwaitEnd(launcher, *process);
}

TEST_F(LocalProcessLauncherTest, WorkerSurvivesItsLauncherAndIsKnownByALaterOne) {
  const std::string identity_file = JoinPath(folder_, "identity");
  const std::string script = Script("exec sleep 600");
  const pid_t server = ::fork();
  if (server == 0) {
    // The first server: launches, writes down who it launched, and dies.
    const auto process = LocalProcessLauncher(script).Launch(Request());
    const bool written =
        process.ok() && WriteFileAtomically(fs_, identity_file,
                                            absl::StrCat(process->pid, " ", process->start_ticks))
                            .ok();
    ::kill(written ? ::getpid() : 0, SIGKILL);
  }
  ::waitpid(server, nullptr, 0);
  const std::string text = ReadFile(fs_, identity_file, 100).value();
  ProcessIdentity process = IdentifySelf().value();  // for the boot id
  process.pid = std::stoi(text.substr(0, text.find(' ')));
  process.start_ticks = std::stoll(text.substr(text.find(' ')));
  LocalProcessLauncher later(script);
  EXPECT_TRUE(later.Check(process).alive);
  later.Kill(process);
  EXPECT_TRUE(Await([&] { return !later.Check(process).alive; }));
  EXPECT_EQ(later.Check(process).ending, "");
}

TEST_F(LocalProcessLauncherTest, MissingBinaryIsAnError) {
  LocalProcessLauncher launcher(JoinPath(folder_, "no-such-worker"));
  const auto status = launcher.Launch(Request()).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no-such-worker"));
}

TEST_F(LocalProcessLauncherTest, AProgramThatIsMissingOrNotExecutableIsAnObstacle) {
  const std::string script = Script("true");
  LocalProcessLauncher launcher(script);
  EXPECT_EQ(launcher.Obstacle(), "");
  ASSERT_EQ(::chmod(script.c_str(), 0644), 0);
  EXPECT_THAT(launcher.Obstacle(), HasSubstr(script));
  std::filesystem::remove(script);
  EXPECT_THAT(launcher.Obstacle(), HasSubstr("missing"));
  EXPECT_THAT(LocalProcessLauncher(folder_).Obstacle(), HasSubstr("cannot be executed"));
}

TEST_F(LocalProcessLauncherTest, AProgramBeingWrittenIsAnError) {
  const std::string script = Script("true");
  const int writer = ::open(script.c_str(), O_WRONLY | O_CLOEXEC);
  EXPECT_FALSE(LocalProcessLauncher(script).Launch(Request()).ok());  // ETXTBSY
  ::close(writer);
}

// An unreadable /proc counted as a dead worker.
TEST_F(LocalProcessLauncherTest, WithoutADescriptorALivingWorkerIsNotDead) {
  const std::string script = Script("exec sleep 600");
  LocalProcessLauncher launcher(script);
  const ProcessIdentity process = launcher.Launch(Request()).value();
  LocalProcessLauncher later(script);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_TRUE(launcher.Check(process).alive);
  EXPECT_TRUE(later.Check(process).alive);
  EXPECT_FALSE(launcher.Launch(Request()).ok());
  launcher.Kill(process);
  const ProcessStatus end = AwaitEnd(launcher, process);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(end.ending, HasSubstr("signal 9"));
}

TEST_F(LocalProcessLauncherTest, UnwritableLogIsAnError) {
  LocalProcessLauncher launcher(Script("true"));
  LaunchRequest request = Request();
  request.log_file = JoinPath(folder_, "no-such-folder/worker.log");
  EXPECT_FALSE(launcher.Launch(request).ok());
}

}  // namespace
}  // namespace lorsa::server
