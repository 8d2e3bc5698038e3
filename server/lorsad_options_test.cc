#include "server/lorsad_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scratch_folder.h"
#include "lorsa/v1/server_config.pb.h"

namespace lorsa::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LorsadOptionsTest : public ::testing::Test {
 protected:
  std::variant<LorsadCommand, int> Parse(std::vector<std::string> arguments) {
    std::vector<const char*> argv = {"lorsad"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    testing::internal::CaptureStderr();
    auto command = ParseLorsadCommand(fs_, static_cast<int>(argv.size()), argv.data());
    error_ = testing::internal::GetCapturedStderr();
    return command;
  }
  LorsadOptions Options(const std::vector<std::string>& arguments) {
    const auto command = Parse(arguments);
    EXPECT_TRUE(std::holds_alternative<LorsadCommand>(command)) << error_;
    return std::get<LorsadCommand>(command).options;
  }
  std::string Config(const std::string& text) {
    EXPECT_TRUE(WriteFileAtomically(fs_, folder_.Path("lorsad.textproto"), text).ok());
    return folder_.Path("lorsad.textproto");
  }

  ScratchFolder folder_;
  PosixFileSystem fs_;
  std::string error_;  // what the last Parse printed
};

TEST_F(LorsadOptionsTest, ListenOnLoopbackUnlessToldOtherwise) {
  const auto options = Options({});
  EXPECT_TRUE(IsLoopback(ParseListenAddress(options.listen)->host));
  EXPECT_EQ(options.data_folder, "lorsa-data");
  EXPECT_EQ(options.max_running_jobs, 1);
}

TEST_F(LorsadOptionsTest, AreTakenFromTheCommandLine) {
  const auto options = Options(
      {"--data-dir",           "d",     "--listen",         "[::1]:0",    "--activation-root",  "/",
       "--activation-root",    "/tmp",  "--worker-binary",  "/bin/sh",    "--max-running-jobs", "3",
       "--log-level",          "debug", "--log-file",       "log",        "--cuda-device",      "1",
       "--disk-reserve-bytes", "7",     "--metrics-listen", "127.0.0.1:0"});
  EXPECT_EQ(options.data_folder, "d");
  EXPECT_EQ(options.listen, "[::1]:0");
  EXPECT_THAT(options.activation_roots, ElementsAre("/", "/tmp"));
  EXPECT_EQ(options.worker_binary, "/bin/sh");
  EXPECT_EQ(options.max_running_jobs, 3);
  EXPECT_EQ(options.log.level, "debug");
  EXPECT_EQ(options.log.file, "log");
  EXPECT_THAT(options.cuda_devices, ElementsAre("1"));
  EXPECT_EQ(options.disk_reserve_bytes, 7);
  EXPECT_EQ(options.metrics_listen, "127.0.0.1:0");
}

TEST_F(LorsadOptionsTest, OfTheFileHoldUnlessAFlagSaysOtherwise) {
  const std::string config = Config(
      "data_dir: 'of-file'  max_running_jobs: 5  activation_roots: '/'\n"
      "verify_interval_hours: 0.5  log { old_files: 2 }  limits { handshake_seconds: 2 }");
  const auto options =
      Options({"--config", config, "--max-running-jobs", "6", "--activation-root", "/tmp"});
  EXPECT_EQ(options.data_folder, "of-file");
  EXPECT_EQ(options.max_running_jobs, 6);
  EXPECT_THAT(options.activation_roots, ElementsAre("/tmp"));
  EXPECT_EQ(options.verify_interval, absl::Minutes(30));
  EXPECT_EQ(options.log.old_files, 2);
  EXPECT_EQ(options.log.level, "info");
  EXPECT_EQ(options.limits.handshake, absl::Seconds(2));
}

TEST_F(LorsadOptionsTest, AnUnknownKeyIsAnErrorThatNamesItsLine) {
  const std::string config = Config("data_dir: 'd'\nlog {\n  colour: true\n}");
  EXPECT_EQ(std::get<int>(Parse({"--config", config})), 2);
  EXPECT_THAT(error_, AllOf(HasSubstr(config + ":3:"), HasSubstr("colour")));
  EXPECT_EQ(std::get<int>(Parse({"--config", folder_.Path("none")})), 2);
  EXPECT_THAT(error_, HasSubstr("none"));
}

TEST_F(LorsadOptionsTest, EveryFieldThatMakesNoSenseIsNamed) {
  EXPECT_EQ(std::get<int>(
                Parse({"--config", Config("listen: 'here'  max_running_jobs: 0  cuda_devices: ''\n"
                                          "disk_reserve_bytes: -1  metrics_listen: '0.0.0.0:1'\n"
                                          "activation_roots: '/none'  worker_binary: '/tmp'\n"
                                          "verify_interval_hours: -1  data_dir: ''\n"
                                          "log { level: 'loud' max_file_bytes: 1 old_files: -1 }\n"
                                          "limits { receive_message_bytes: 1 metadata_bytes: 1\n"
                                          "  streams_per_connection: 0 handshake_seconds: 0\n"
                                          "  sequence_streams: 0 descriptors: 5 }\n"
                                          "webhooks { secret_file: '/none' allowed_hosts: 'a/b'\n"
                                          "  timeout_seconds: 0 give_up_hours: -1 }")})),
            2);
  for (const char* field : {"listen (",
                            "max_running_jobs",
                            "cuda_devices",
                            "disk_reserve_bytes",
                            "metrics_listen",
                            "activation_roots",
                            "worker_binary",
                            "verify_interval_hours",
                            "data_dir",
                            "log.level",
                            "log.max_file_bytes",
                            "log.old_files",
                            "limits.receive_message_bytes",
                            "limits.metadata_bytes",
                            "limits.streams_per_connection",
                            "limits.handshake_seconds",
                            "limits.sequence_streams",
                            "limits.descriptors",
                            "webhooks.secret_file",
                            "webhooks.allowed_hosts",
                            "webhooks.timeout_seconds",
                            "webhooks.give_up_hours"}) {
    EXPECT_THAT(error_, HasSubstr(field));
  }
}

TEST_F(LorsadOptionsTest, WorkersElsewhereNeedAWrapperAndAnEndpoint) {
  const auto options = Options(
      {"--config", Config("worker_wrapper: '/bin/sh'"), "--worker-endpoint", "127.0.0.1:7070"});
  EXPECT_EQ(options.worker_wrapper, "/bin/sh");
  EXPECT_EQ(options.worker_endpoint, "127.0.0.1:7070");
  const auto refused = [&](const std::string& config, const std::string& why) {
    EXPECT_EQ(std::get<int>(Parse({"--config", Config(config)})), 2) << config;
    EXPECT_THAT(error_, HasSubstr(why));
  };
  refused("worker_wrapper: '/bin/sh'", "worker_endpoint");
  refused("worker_wrapper: '/bin/sh' worker_endpoint: '127.0.0.1:0'", "worker_endpoint");
  refused("worker_endpoint: '127.0.0.1:7070'", "worker_wrapper");
  refused("worker_wrapper: '/etc/passwd' worker_endpoint: '127.0.0.1:7070'", "no program");
  refused("worker_wrapper: '/bin/sh' worker_binary: '/bin/sh' worker_endpoint: 'a:1'",
          "one of them");
}

// --check-config let a key pass with which lorsad then did not start.
TEST_F(LorsadOptionsTest, TheKeyOfWebhooksIsRead) {
  const std::string key = folder_.Path("key");
  const std::string config =
      Config("webhooks { secret_file: '" + key + "' allowed_hosts: 'example.org' }");
  ASSERT_TRUE(WriteFileAtomically(fs_, key, "too short\n").ok());
  EXPECT_EQ(std::get<int>(Parse({"--check-config", "--config", config})), 2);
  EXPECT_THAT(error_, AllOf(HasSubstr("webhooks.secret_file: " + key), HasSubstr("9 bytes")));
  ASSERT_TRUE(WriteFileAtomically(fs_, key, "as long as it has to be\n").ok());
  EXPECT_EQ(Options({"--check-config", "--config", config}).webhooks.secret_file, key);
}

// deploy/lorsad.textproto says that it has every field, with its default.
TEST_F(LorsadOptionsTest, TheSampleIsWhole) {
  const std::string sample = LORSA_SOURCE_DIR "/deploy/lorsad.textproto";
  const auto options = ReadConfig(fs_, sample);
  ASSERT_TRUE(options.ok()) << options.status();
  const LorsadOptions defaults;
  EXPECT_EQ(options->data_folder, defaults.data_folder);
  EXPECT_EQ(options->listen, defaults.listen);
  EXPECT_EQ(options->max_running_jobs, defaults.max_running_jobs);
  EXPECT_EQ(options->disk_reserve_bytes, defaults.disk_reserve_bytes);
  EXPECT_EQ(options->verify_interval, defaults.verify_interval);
  EXPECT_EQ(options->log.level, defaults.log.level);
  EXPECT_EQ(options->log.max_file_bytes, defaults.log.max_file_bytes);
  EXPECT_EQ(options->log.old_files, defaults.log.old_files);
  EXPECT_EQ(options->limits.receive_message_bytes, defaults.limits.receive_message_bytes);
  EXPECT_EQ(options->limits.metadata_bytes, defaults.limits.metadata_bytes);
  EXPECT_EQ(options->limits.streams_per_connection, defaults.limits.streams_per_connection);
  EXPECT_EQ(options->limits.handshake, defaults.limits.handshake);
  EXPECT_EQ(options->limits.sequence_streams.in_all, defaults.limits.sequence_streams.in_all);
  EXPECT_EQ(options->limits.sequence_streams.per_client,
            defaults.limits.sequence_streams.per_client);
  EXPECT_EQ(options->limits.streams.bounds.in_all, defaults.limits.streams.bounds.in_all);
  EXPECT_EQ(options->limits.streams.bounds.per_client, defaults.limits.streams.bounds.per_client);
  EXPECT_EQ(options->limits.streams.stall, defaults.limits.streams.stall);
  EXPECT_EQ(options->limits.reader_threads, defaults.limits.reader_threads);
  EXPECT_EQ(options->limits.descriptors, defaults.limits.descriptors);
  EXPECT_EQ(options->webhooks.secret_file, defaults.webhooks.secret_file);
  EXPECT_EQ(options->webhooks.timeout, defaults.webhooks.timeout);
  EXPECT_EQ(options->webhooks.give_up, defaults.webhooks.give_up);

  const std::string text = ReadFile(fs_, sample, 1 << 20).value();
  for (const auto* message : {v1::ServerConfig::descriptor(), v1::LogConfig::descriptor(),
                              v1::LimitsConfig::descriptor(), v1::WebhooksConfig::descriptor()}) {
    for (int i = 0; i < message->field_count(); ++i) {
      EXPECT_THAT(text, HasSubstr(message->field(i)->name())) << message->full_name();
    }
  }
}

TEST_F(LorsadOptionsTest, VerbsTakeAPath) {
  const auto backup = std::get<LorsadCommand>(Parse({"backup", "b", "--data-dir", "d"}));
  EXPECT_EQ(backup.verb, Verb::kBackUp);
  EXPECT_EQ(backup.path, "b");
  EXPECT_EQ(backup.options.data_folder, "d");
  EXPECT_EQ(std::get<LorsadCommand>(Parse({"--data-dir", "d", "restore", "b"})).verb,
            Verb::kRestore);
  EXPECT_EQ(std::get<LorsadCommand>(Parse({"--check-config"})).verb, Verb::kCheckConfig);
  EXPECT_EQ(std::get<int>(Parse({"backup"})), 2);
}

TEST_F(LorsadOptionsTest, HelpAndVersionEndWithZeroAndMistakesDoNot) {
  EXPECT_EQ(std::get<int>(Parse({"--help"})), 0);
  EXPECT_EQ(std::get<int>(Parse({"--version"})), 0);
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{"--listen", "here"},
                                             {"--listen", "127.0.0.1:70000"},
                                             {"--max-running-jobs", "0"},
                                             {"--log-level", "loud"},
                                             {"--activation-root", "/none"},
                                             {"--worker-binary", "/tmp"},
                                             {"--no-such-flag"}}) {
    const auto parsed = Parse(arguments);
    ASSERT_TRUE(std::holds_alternative<int>(parsed)) << arguments.front();
    EXPECT_EQ(std::get<int>(parsed), 2) << arguments.front();
    EXPECT_THAT(error_, HasSubstr(arguments.front()));
  }
}

TEST(ListenAddress, HasAHostAndAPort) {
  EXPECT_EQ(ParseListenAddress("localhost:0")->port, 0);
  EXPECT_EQ(ParseListenAddress("[::]:7070")->host, "[::]");
  for (const char* listen : {"", ":1", "host", "host:", "host:-1", "host:65536", "host:x"}) {
    EXPECT_FALSE(ParseListenAddress(listen).ok()) << listen;
  }
}

TEST(Loopback, IsTold) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "localhost", "[::1]"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"0.0.0.0", "[::]", "10.0.0.1", "example.org", "1270.0.0.1"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

}  // namespace
}  // namespace lorsa::server
