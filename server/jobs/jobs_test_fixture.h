// For tests: a job manager with a real catalog and data folder, in which time, processes and
// workers are scripted.
#ifndef LORSA_SERVER_JOBS_JOBS_TEST_FIXTURE_H_
#define LORSA_SERVER_JOBS_JOBS_TEST_FIXTURE_H_

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/file_system.h"
#include "base/gated_file_system.h"
#include "base/sha256.h"
#include "base/worker_protocol.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/worker_sessions.h"
#include "server/model/spec_facts.h"

namespace lorsa::server {

// Processes that live until a test ends them.
class FakeLauncher final : public Launcher {
 public:
  absl::StatusOr<ProcessIdentity> Launch(const LaunchRequest& request) override {
    if (failing) return absl::UnavailableError("start worker lorsa-worker: Text file busy");
    launched.push_back(request);
    const ProcessIdentity process{"boot", static_cast<pid_t>(1000 + launched.size()), 77};
    alive_[process.pid] = true;
    on_launch();
    return process;
  }
  ProcessStatus Check(const ProcessIdentity& process) override {
    if (alive_[process.pid]) return {.alive = true};
    return {.alive = false,
            .ending = endings_[process.pid],
            .exit_status = exit_status,
            .out_of_memory = out_of_memory_.contains(process.pid)};
  }
  void Kill(const ProcessIdentity& process) override {
    killed.push_back(process.pid);
    End(process.pid, "was killed by signal 9 (Killed)");
  }
  void ReapAllBut(absl::Span<const ProcessIdentity> processes) override {
    watched.clear();
    for (const ProcessIdentity& process : processes) watched.push_back(process.pid);
  }

  void End(pid_t pid, const std::string& ending) {
    alive_[pid] = false;
    endings_[pid] = ending;
  }
  void EndLastForWantOfMemory() {
    out_of_memory_.insert(static_cast<pid_t>(1000 + launched.size()));
    EndLast("was killed by signal 9 (Killed) because memory ran out");
  }
  void EndLast(const std::string& ending = "exited with status 1") {
    End(static_cast<pid_t>(1000 + launched.size()), ending);
  }

  bool failing = false;
  std::optional<int> exit_status;  // of all that have ended
  std::function<void()> on_launch = [] {};
  std::vector<LaunchRequest> launched;
  std::vector<pid_t> killed;
  std::vector<pid_t> watched;  // at the last reaping

 private:
  std::map<pid_t, bool> alive_;
  std::map<pid_t, std::string> endings_;
  std::set<pid_t> out_of_memory_;
};

class FakeConnection final : public WorkerConnection {
 public:
  bool Send(v1::ServerMessage message) override {
    messages.push_back(std::move(message));
    return true;
  }
  void End(absl::Status status) override {
    if (!ended.has_value()) ended = std::move(status);
  }

  std::vector<v1::Command> commands() const {
    std::vector<v1::Command> commands;
    for (const auto& message : messages) {
      if (message.has_command()) commands.push_back(message.command());
    }
    return commands;
  }

  std::vector<v1::ServerMessage> messages;
  std::optional<absl::Status> ended;
};

// A kind whose jobs are made by the tests, not planned.
class FakeKind final : public JobKind {
 public:
  absl::StatusOr<PlannedSpec> Plan(const v1::JobSpec& spec, const v1::ActivationSet*,
                                   const std::string&) const override {
    return PlannedSpec{.resolved = spec};
  }
  absl::StatusOr<v1::JobEstimate> EstimateResources(const v1::JobSpec&) const override {
    return v1::JobEstimate();
  }
  absl::StatusOr<std::optional<absl::Duration>> EstimateTime(const v1::JobSpec&) const override {
    return std::nullopt;
  }
  absl::StatusOr<int64_t> MaxUploadBytes(const v1::JobSpec&, const std::string&) const override {
    return 0;
  }
  bool IsCheckpointFile(const std::string&) const override { return false; }
  std::vector<std::string> Command() const override { return command; }
  std::string Obstacle() const override { return obstacle; }

  std::vector<std::string> command;
  std::string obstacle;
};

// One connected worker, as a test drives it.
struct FakeWorker {
  v1::WorkerBootstrap bootstrap;
  AttemptKey attempt;
  std::shared_ptr<FakeConnection> connection = std::make_shared<FakeConnection>();
};

class JobsTest : public ::testing::Test {
 protected:
  explicit JobsTest(int max_running_jobs = 1) {
    std::string folder = ::testing::TempDir() + "jobs_XXXXXX";
    folder_ = ::mkdtemp(folder.data());
    options_.capacity.max_running_jobs = max_running_jobs;
    options_.max_recoveries = 2;
    kinds_.Add(kTrainingKind, std::make_unique<FakeKind>());
    Restart();
    v1::ActivationSet set;
    set.set_name("activationSets/set");
    EXPECT_TRUE(catalog_->CreateActivationSet(set).ok());
  }
  ~JobsTest() override {
    manager_.reset();
    catalog_.reset();
    std::filesystem::remove_all(folder_);
  }

  // What a new server process would find: the catalog, the files and the workers, nothing else.
  void Restart() {
    manager_.reset();
    catalog_.reset();
    auto catalog = Catalog::Open(Layout().CatalogFile());
    ASSERT_TRUE(catalog.ok()) << catalog.status();
    catalog_ = *std::move(catalog);
    manager_ = std::make_unique<JobManager>(options_, Environment());
  }

  // What a server does before anybody is served; no set is to be adopted.
  absl::Status AdoptData() {
    return manager_->AdoptData([] { return absl::OkStatus(); });
  }

  DataLayout Layout() const { return DataLayout(folder_); }

  JobEnvironment Environment() { return Environment(fs_); }
  JobEnvironment Environment(FileSystem& fs) {
    return {.catalog = *catalog_,
            .fs = fs,
            .launcher = launcher_,
            .watchers = hub_,
            .kinds = kinds_,
            .layout = Layout(),
            .now = [this] { return now_; },
            .uptime = [this] { return now_ - absl::UnixEpoch(); },
            .random_bytes =
                [this](size_t count) {
                  std::string bytes = absl::StrCat(++random_calls_);  // never the same twice
                  bytes.resize(count, '.');
                  return bytes;
                },
            .is_deaf = [this] { return deaf_; }};
  }

  void Create(const std::string& id) {
    NewJob job{.id = id};
    job.resolved_spec.mutable_training()->set_activation_set("set");
    job.resolved_spec.mutable_training()->set_keep_checkpoints(2);
    job.resolved_spec.mutable_training()->set_ranks(3);
    ASSERT_TRUE(manager_->CreateJob(job).ok());
  }

  v1::Job Get(const std::string& id) { return manager_->GetJob(id).value(); }
  v1::JobState State(const std::string& id) { return Get(id).state(); }
  void Poll() { manager_->Poll(); }
  void Advance(absl::Duration duration) { now_ += duration; }

  // The worker launched last, not connected.
  FakeWorker Launched() {
    FakeWorker worker;
    const std::string text =
        ReadFile(fs_, launcher_.launched.back().bootstrap_file, 1 << 20).value();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &worker.bootstrap));
    return worker;
  }
  absl::Status Connect(FakeWorker& worker) {
    auto attempt = manager_->sessions().VerifyWorkerToken(worker.bootstrap.token());
    if (!attempt.ok()) return attempt.status();
    worker.attempt = *attempt;
    worker.connection = std::make_shared<FakeConnection>();
    return SayHello(worker.attempt, {}, worker.connection);
  }
  // With the server's version of the protocol, unless `hello` has one.
  absl::Status SayHello(const AttemptKey& attempt, v1::WorkerHello hello,
                        const std::shared_ptr<WorkerConnection>& connection) {
    if (hello.protocol() == 0) hello.set_protocol(kWorkerProtocol);
    v1::WorkerMessage message;
    *message.mutable_hello() = hello;
    manager_->sessions().Arrived(attempt, message);
    return manager_->sessions().Hello(attempt, hello, connection);
  }
  // Creates the job, launches it and connects its worker.
  FakeWorker Run(const std::string& id) {
    Create(id);
    return LaunchAndConnect();
  }
  FakeWorker LaunchAndConnect() {
    Poll();
    FakeWorker worker = Launched();
    EXPECT_TRUE(Connect(worker).ok());
    return worker;
  }
  // The worker dies; the next attempt is launched after its backoff and connects.
  FakeWorker LoseAndRecover() {
    launcher_.EndLast("was killed by signal 11 (Segmentation fault)");
    Poll();
    Advance(options_.max_backoff);
    return LaunchAndConnect();
  }

  absl::Status Say(FakeWorker& worker, const v1::WorkerMessage& message) {
    return Say(worker, message, *worker.connection);
  }
  absl::Status Say(FakeWorker& worker, const v1::WorkerMessage& message,
                   WorkerConnection& connection) {
    manager_->sessions().Arrived(worker.attempt, message);
    return manager_->sessions().Handle(worker.attempt, message, connection);
  }
  absl::Status SayOutcome(FakeWorker& worker, v1::WorkerOutcome::Kind kind) {
    v1::WorkerMessage message;
    message.mutable_outcome()->set_kind(kind);
    return Say(worker, message);
  }
  absl::Status SayHeartbeat(FakeWorker& worker, int64_t step, const std::string& waiting_for = "") {
    v1::WorkerMessage message;
    message.mutable_heartbeat()->mutable_progress()->set_step(step);
    message.mutable_heartbeat()->set_waiting_for(waiting_for);
    return Say(worker, message);
  }
  absl::Status SayMetrics(FakeWorker& worker, int64_t batch, std::vector<int64_t> steps) {
    v1::WorkerMessage message;
    message.mutable_metrics()->set_number(batch);
    for (const int64_t step : steps) {
      v1::MetricPoint& point = *message.mutable_metrics()->add_points();
      point.set_kind(v1::METRIC_KIND_TRAINING);
      point.set_step(step);
      (*point.mutable_values())["loss"] = 1.0 / static_cast<double>(step);
    }
    return Say(worker, message);
  }

  // Writes a checkpoint as a worker does; its one file of weights holds `weights`.
  v1::CheckpointStaged Stage(const FakeWorker& worker, int64_t step,
                             const std::string& weights = "weights",
                             std::optional<double> fvu = std::nullopt) {
    v1::CheckpointStaged staged;
    staged.set_folder(CheckpointId(step));
    staged.set_step(step);
    staged.set_scheduled(true);
    if (fvu.has_value()) staged.set_fvu(*fvu);
    const std::string folder = JoinPath(worker.bootstrap.staging_folder(), staged.folder());
    const std::string manifest =
        absl::StrCat(R"({"files":{"lorsa.safetensors":{"bytes":)", weights.size(), R"(,"sha256":")",
                     Sha256Hex(weights), R"("}},"attempt":)", worker.attempt.attempt, "}");
    EXPECT_TRUE(fs_.CreateDirectories(folder).ok());
    EXPECT_TRUE(WriteFileAtomically(fs_, JoinPath(folder, "lorsa.safetensors"), weights).ok());
    EXPECT_TRUE(WriteFileAtomically(fs_, JoinPath(folder, "manifest.json"), manifest).ok());
    staged.set_manifest_sha256(Sha256Hex(manifest));
    return staged;
  }
  // The answer to a staged checkpoint.
  v1::CheckpointPublished Publish(FakeWorker& worker, const v1::CheckpointStaged& staged) {
    v1::WorkerMessage message;
    *message.mutable_checkpoint() = staged;
    const absl::Status status = Say(worker, message);
    EXPECT_TRUE(status.ok()) << status;
    return worker.connection->messages.back().checkpoint_published();
  }

  void LeaveOutcomeFile(const FakeWorker& worker, v1::WorkerOutcome::Kind kind) {
    v1::WorkerOutcome outcome;
    outcome.set_kind(kind);
    std::string text;
    google::protobuf::TextFormat::PrintToString(outcome, &text);
    ASSERT_TRUE(WriteFileAtomically(fs_, worker.bootstrap.outcome_file(), text).ok());
  }

  std::vector<std::string> EventReasons(const std::string& id) {
    std::vector<std::string> reasons;
    const auto events = catalog_->ListEvents(id, 0, 100).value();
    for (const auto& event : events) {
      reasons.push_back(event.reason());
    }
    return reasons;
  }

  std::string folder_;
  GatedFileSystem fs_;
  bool deaf_ = false;  // the server turns connections away
  FakeLauncher launcher_;
  JobWatchHub hub_;
  JobKinds kinds_;
  JobOptions options_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(500'000);
  int random_calls_ = 0;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<JobManager> manager_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_JOBS_TEST_FIXTURE_H_
