#include "server/lorsad.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "activation_store/manifest.h"
#include "base/machine_memory.h"
#include "base/rooted_file_system.h"
#include "base/status_macros.h"
#include "server/catalog/missing_file_locks.h"
#include "server/kinds/program_kind.h"
#include "server/kinds/training_kind.h"
#include "server/model/spec_facts.h"
#include "server/spare_room.h"
#include "server/webhooks/webhook_key.h"

namespace lorsa::server {
namespace {

// The largest message is one sequence: its activations have at most 1 GiB (activation_store/
// manifest.h); tokens, mask and what frames them stay far below the rest.
constexpr int kMaxSendBytes = store::kMaxSequenceBytes + (16 << 20);
constexpr size_t kMaxTransportBytes = size_t{1} << 30;
// An answer has 2 MiB at most (services/paging.h), and is taken at once by who wants it.
constexpr StreamLimits kAnswerLimits = {
    .bounds = {.in_all = 512, .per_client = 256, .per_worker = 64}, .stall = absl::Minutes(1)};
constexpr absl::Duration kDiskInterval = absl::Seconds(1);
constexpr absl::Duration kDrainDeadline = absl::Seconds(120);
constexpr auto kCallsDeadline = std::chrono::seconds(3);
// A connection without a call; clients connect again with the next one.
constexpr absl::Duration kMaxIdle = absl::Minutes(10);

std::string ProgramFolder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

// Where the server reads and writes: its data folder, and what was named to it as it was named,
// which may be a link, and with links resolved, as paths of sets are stored.
std::vector<std::string> FoldersOf(const LorsadOptions& options, const DataLayout& layout,
                                   const ActivationRoots& roots) {
  std::vector<std::string> folders = roots.roots();
  folders.insert(folders.end(), {layout.root(), layout.SetsFolder()});
  for (const std::string& root : options.activation_roots) {
    folders.push_back(std::filesystem::absolute(root).string());
  }
  return folders;
}

absl::Status CheckProgram(FileSystem& fs, const std::string& path, absl::string_view what_to_do) {
  LORSA_ASSIGN_OR_RETURN(const bool exists, fs.Exists(path));
  if (exists) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("there is no ", path, ": ", what_to_do));
}

ServerDescription Describe(const LorsadOptions& options, const ActivationRoots& roots,
                           const DataLayout& layout, absl::Time start_time) {
  return {.version = kVersion,
          .start_time = start_time,
          .activation_roots = roots.roots(),
          .data_folder = layout.root(),
          .max_running_jobs = options.max_running_jobs,
          .max_message_bytes = options.limits.receive_message_bytes,
          .disk_reserve_bytes = options.disk_reserve_bytes};
}

JobCapacity CapacityFor(const LorsadOptions& options) {
  JobCapacity capacity{.max_running_jobs = options.max_running_jobs,
                       .cpu_slots = options.cpu_slots,
                       .memory_bytes = options.job_memory_bytes};
  if (capacity.cpu_slots == 0) capacity.cpu_slots = ThisMachine().cores;
  // One that cannot be read is no limit.
  if (capacity.memory_bytes == 0) capacity.memory_bytes = ReadMemoryLimit().value_or(0);
  return capacity;
}

std::string WorkerProgramOf(const LorsadOptions& options) {
  const std::string& named =
      options.worker_wrapper.empty() ? options.worker_binary : options.worker_wrapper;
  return named.empty() ? JoinPath(ProgramFolder(), "lorsa-worker")
                       : std::filesystem::absolute(named).string();
}

JobKinds KindsOf(const LorsadOptions& options, const Catalog& catalog, FileSystem& fs,
                 const DataLayout& layout) {
  JobKinds kinds;
  kinds.Add(kTrainingKind, std::make_unique<TrainingKind>(catalog, fs, layout, ThisMachine()));
  for (const JobKindOptions& kind : options.job_kinds) {
    kinds.Add(kind.name, std::make_unique<ProgramKind>(kind.command));
  }
  return kinds;
}

// Where programs on this machine reach a server that listens on `host`.
std::string LocalHost(const std::string& host) {
  if (host == "0.0.0.0") return "127.0.0.1";
  return host == "[::]" ? "[::1]" : host;
}

// Empty without webhooks.
absl::StatusOr<std::string> WebhookKeyOf(FileSystem& fs, const WebhookOptions& webhooks) {
  if (webhooks.secret_file.empty()) return "";
  return ReadWebhookKey(fs, webhooks.secret_file);
}

void WarnIfReachable(const ListenAddress& address) {
  if (IsLoopback(address.host)) return;
  spdlog::warn(
      "event=listening_beyond_loopback host={} message=\"there is no authentication yet: whoever "
      "reaches this port may run jobs and read activations and checkpoints\"",
      address.host);
}

// A catalog that lost all that it held looks like one of a new folder.
absl::Status RefuseLostCatalog(FileSystem& fs, const DataLayout& layout) {
  LORSA_ASSIGN_OR_RETURN(const bool exists, fs.Exists(layout.CatalogFile()));
  if (exists) {
    LORSA_ASSIGN_OR_RETURN(const auto file, fs.OpenForRead(layout.CatalogFile()));
    if (file->size() > 0) return absl::OkStatus();
  }
  const absl::StatusOr<std::vector<std::string>> jobs = fs.List(layout.JobsFolder());
  if (absl::IsNotFound(jobs.status())) return absl::OkStatus();
  LORSA_RETURN_IF_ERROR(jobs.status());
  if (jobs->empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      layout.JobsFolder(), " holds jobs, but the catalog that knows them is ",
      exists ? "empty" : "missing",
      ": restore it from a backup (lorsad restore), or move that folder away to begin anew"));
}

}  // namespace

absl::StatusOr<Lorsad::Foundation> Lorsad::Prepare(FileSystem& fs, const LorsadOptions& options) {
  // Absolute, since workers get paths below it and have another working folder.
  const DataLayout layout(std::filesystem::absolute(options.data_folder).lexically_normal());
  LORSA_RETURN_IF_ERROR(fs.CreateDirectories(layout.SetsFolder()));
  LORSA_ASSIGN_OR_RETURN(auto lock, FolderLock::Acquire(layout.LockFile()));  // 1
  GrantMissingFileLocks();
  LORSA_ASSIGN_OR_RETURN(std::string webhook_key, WebhookKeyOf(fs, options.webhooks));
  const std::string inspect = JoinPath(ProgramFolder(), "lorsa-inspect");
  LORSA_RETURN_IF_ERROR(
      CheckProgram(fs, inspect, "it belongs beside lorsad; build it, or copy it there"));
  std::vector<std::string> folders = options.activation_roots;
  folders.push_back(layout.SetsFolder());
  LORSA_ASSIGN_OR_RETURN(ActivationRoots roots, ActivationRoots::Create(folders));
  LORSA_ASSIGN_OR_RETURN(auto readers, store::ReaderPool::Create(options.limits.reader_threads));
  LORSA_RETURN_IF_ERROR(RefuseLostCatalog(fs, layout));
  // Last: it upgrades a catalog, which the lorsad before this one then refuses.
  LORSA_ASSIGN_OR_RETURN(  // 2
      auto catalog, Catalog::Open(layout.CatalogFile(), [layout] {
        PosixFileSystem on_disk;
        return GiveUpSpareRoom(on_disk, layout);
      }));
  return Foundation{.layout = layout,
                    .lock = std::move(lock),
                    .catalog = std::move(catalog),
                    .roots = std::move(roots),
                    .worker_program = WorkerProgramOf(options),
                    .inspect_program = inspect,
                    .readers = std::move(readers),
                    .webhook_key = std::move(webhook_key)};
}

absl::StatusOr<std::unique_ptr<Lorsad>> Lorsad::Start(const LorsadOptions& options) {
  PosixFileSystem fs;
  LORSA_ASSIGN_OR_RETURN(const ListenAddress wanted, ParseListenAddress(options.listen));
  LORSA_ASSIGN_OR_RETURN(Foundation foundation, Prepare(fs, options));  // 1, 2
  try {
    std::unique_ptr<Lorsad> lorsad(new Lorsad(options, std::move(foundation)));
    LORSA_RETURN_IF_ERROR(lorsad->ServeMetrics());  // 3
    LORSA_RETURN_IF_ERROR(lorsad->AdoptData());     // 4
    LORSA_RETURN_IF_ERROR(lorsad->Listen(wanted));  // 5
    lorsad->PrepareWork();
    lorsad->BeginWork();  // 6, 7
    return lorsad;
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the system gives no thread (", error.what(),
                     "): raise the limit on processes (ulimit -u, or the container's)"));
  }
}

Lorsad::Lorsad(const LorsadOptions& options, Foundation foundation)
    : options_(options),
      fs_(std::make_unique<RootedFileSystem>(
          FoldersOf(options, foundation.layout, foundation.roots))),
      layout_(foundation.layout),
      lock_(std::move(foundation.lock)),
      catalog_(std::move(foundation.catalog)),
      start_time_(absl::Now()),
      webhook_key_(std::move(foundation.webhook_key)),
      conditions_(absl::Now),
      launcher_(
          foundation.worker_program, options.cuda_devices, [] { return CountOutOfMemoryKills(); },
          options.worker_wrapper.empty() ? WorkerProgram::kWorker : WorkerProgram::kWrapper),
      kinds_(KindsOf(options, *catalog_, *fs_, layout_)),
      jobs_({.capacity = CapacityFor(options),
             .worker_endpoint = options.worker_endpoint,
             .server_version = kVersion},
            {.catalog = *catalog_,
             .fs = *fs_,
             .launcher = launcher_,
             .watchers = watchers_,
             .kinds = kinds_,
             .layout = layout_,
             .now = absl::Now,
             .random_bytes = SystemRandomBytes,
             .launch_obstacle = [this] { return LaunchObstacle(); },
             .is_deaf = [this] { return acceptor_ != nullptr && acceptor_->IsFull(); }}),
      streams_("streams", options.limits.streams),
      answers_("answers that nobody has read", kAnswerLimits),
      calls_{jobs_.sessions(), streams_, answers_, records_},
      readers_(std::move(foundation.readers)),
      inspector_(*fs_, foundation.inspect_program),
      quarantine_(*catalog_, inspector_, absl::Now,
                  [this](const std::string& job, const std::string& why) {
                    // One that does not run just now is left: it is looked at again when it does.
                    jobs_.PauseForQuarantine(job, why).IgnoreError();
                  }),
      set_uploads_(*fs_, layout_.SetsFolder(), options.disk_reserve_bytes),
      staged_uploads_(*catalog_, kinds_, *fs_, layout_, options.disk_reserve_bytes),
      server_info_service_(calls_, threads_.lanes().data, *catalog_, *fs_, conditions_,
                           Describe(options, foundation.roots, layout_, start_time_)),
      activation_service_({.calls = calls_,
                           .lanes = threads_.lanes(),
                           .catalog = *catalog_,
                           .fs = *fs_,
                           .roots = foundation.roots,
                           .now = absl::Now,
                           .quarantine = quarantine_,
                           .uploads = set_uploads_,
                           .inspector = inspector_,
                           .readers = *readers_,
                           .sequence_streams = options.limits.sequence_streams}),
      checkpoint_service_({.calls = calls_,
                           .lanes = threads_.lanes(),
                           .catalog = *catalog_,
                           .fs = *fs_,
                           .layout = layout_,
                           .jobs = jobs_,
                           .inspector = inspector_,
                           .roots = foundation.roots,
                           .now = absl::Now,
                           .disk_reserve_bytes = options.disk_reserve_bytes}),
      job_service_({.calls = calls_,
                    .lanes = threads_.lanes(),
                    .jobs = jobs_,
                    .catalog = *catalog_,
                    .fs = *fs_,
                    .watchers = watchers_,
                    .layout = layout_,
                    .planning = {.kinds = kinds_,
                                 .capacity = jobs_.capacity(),
                                 .now = absl::Now,
                                 .webhooks = WebhookReceivers(options.webhooks.allowed_hosts)}}),
      metric_service_(calls_, threads_.lanes().reads, *catalog_, watchers_),
      worker_service_({.calls = calls_,
                       .lanes = threads_.lanes(),
                       .sessions = jobs_.sessions(),
                       .uploads = staged_uploads_,
                       .fs = *fs_,
                       .layout = layout_}),
      disk_user_(kDiskInterval, [this] {
        UseDisk();
        return false;
      }) {}

absl::Status Lorsad::AdoptData() {
  const absl::Status adopted =
      jobs_.AdoptData([this] { return activation_service_.AdoptUploads(); });
  if (adopted.ok()) return adopted;
  return absl::Status(
      adopted.code(),
      absl::StrCat(
          "the catalog and the data folder could not be brought together: ", adopted.message(),
          "; nothing was removed: mend that (make room if the disk is full), then start "
          "lorsad again"));
}

std::string Lorsad::LaunchObstacle() const {
  for (const char* reason : {kCatalogReadOnly, kDiskReserve, kTooManyConnections}) {
    if (conditions_.Holds(reason)) return conditions_.Message(reason);
  }
  return launcher_.Obstacle();
}

void Lorsad::Configure(grpc::ServerBuilder& builder) const {
  const ServerLimits& limits = options_.limits;
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits.receive_message_bytes));
  builder.SetMaxSendMessageSize(kMaxSendBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(limits.metadata_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits.streams_per_connection);
  // Whoever connects and says nothing is let go, as is who calls nothing any more.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             static_cast<int>(absl::ToInt64Milliseconds(limits.handshake)));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             static_cast<int>(absl::ToInt64Milliseconds(kMaxIdle)));
  // A peer that vanished without a word is noticed within a minute; clients may ask as often.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 40'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.SetResourceQuota(grpc::ResourceQuota("lorsad").Resize(kMaxTransportBytes));
}

absl::Status Lorsad::Listen(const ListenAddress& wanted) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  Configure(builder);
  auto acceptor = ConnectionAcceptor::Listen(wanted.host, wanted.port);
  if (!acceptor.ok()) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", options_.listen, ": ",
                                               acceptor.status().message(),
                                               "; name another address with --listen"));
  }
  acceptor_ = *std::move(acceptor);
  acceptor_->Serve(builder, grpc::InsecureServerCredentials());
  for (grpc::Service* service : std::initializer_list<grpc::Service*>{
           &server_info_service_, &activation_service_, &checkpoint_service_, &job_service_,
           &metric_service_, &worker_service_}) {
    builder.RegisterService(service);
  }
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return absl::InternalError("gRPC could not be started");
  conditions_.Set(kRecovering, "the server looks at the jobs of the one before it");
  ReportHealth(conditions_, *server_->GetHealthCheckService());
  acceptor_->Start();
  address_ = absl::StrCat(LocalHost(wanted.host), ":", acceptor_->port());
  WarnIfReachable(wanted);
  return absl::OkStatus();
}

void Lorsad::PrepareWork() {
  monitor_ = std::make_unique<ConditionMonitor>(Monitored());
  PrepareWebhooks();
  if (options_.verify_interval == absl::ZeroDuration()) return;
  scrubber_ = std::make_unique<Scrubber>(ScrubberEnvironment{.catalog = *catalog_,
                                                             .fs = *fs_,
                                                             .quarantine = quarantine_,
                                                             .layout = layout_,
                                                             .now = absl::Now,
                                                             .interval = options_.verify_interval});
}

std::string Lorsad::StreamShortage() const {
  const std::string shortage = streams_.Shortage();
  return shortage.empty() ? activation_service_.StreamShortage() : shortage;
}

MonitorEnvironment Lorsad::Monitored() {
  return {.catalog = *catalog_,
          .fs = *fs_,
          .conditions = conditions_,
          .health = *server_->GetHealthCheckService(),
          .stream_shortage = [this] { return StreamShortage(); },
          .data_folder = layout_.root(),
          .disk_reserve_bytes = options_.disk_reserve_bytes,
          .launch_problem = [this] { return launcher_.Obstacle(); },
          .is_full = [this] { return acceptor_->IsFull(); }};
}

// What a full disk did not take is tried again.
void Lorsad::UseDisk() {
  if (!endpoint_written_) {
    const absl::Status written = WriteFileAtomically(*fs_, layout_.EndpointFile(), address_ + "\n");
    endpoint_written_ = written.ok();
    endpoint_log_.Note(written.ok() ? "" : absl::StrCat("error=\"", written.ToString(), "\""));
  }
  KeepSpareRoom(*fs_, layout_);
}

void Lorsad::BeginWork() {
  working_ = true;
  UseDisk();              // 6
  LookOnce(Monitored());  // Before a job is started.
  jobs_.Poll();
  conditions_.Set(kRecovering, "");
  ReportHealth(conditions_, *server_->GetHealthCheckService());
  jobs_.Start();
  disk_user_.Start();
  if (webhooks_ != nullptr) webhooks_->Start();
}

void Lorsad::PrepareWebhooks() {
  if (webhook_key_.empty()) return;
  webhook_calls_ = MakeCurlPost(options_.webhooks.timeout);
  webhooks_ = std::make_unique<WebhookSender>(
      WebhookEnvironment{.catalog = *catalog_,
                         .http = *webhook_calls_,
                         .now = absl::Now,
                         .receivers = WebhookReceivers(options_.webhooks.allowed_hosts),
                         .key = webhook_key_,
                         .give_up = options_.webhooks.give_up,
                         .user_agent = absl::StrCat("lorsad/", kVersion)});
}

absl::Status Lorsad::ServeMetrics() {
  if (options_.metrics_listen.empty()) return absl::OkStatus();
  LORSA_ASSIGN_OR_RETURN(
      metrics_, MetricsEndpoint::Start(options_.metrics_listen, {.catalog = *catalog_,
                                                                 .jobs = jobs_,
                                                                 .fs = *fs_,
                                                                 .conditions = conditions_,
                                                                 .lanes = threads_.lanes(),
                                                                 .calls = records_,
                                                                 .layout = layout_,
                                                                 .start_time = start_time_}));
  spdlog::info("event=metrics_listening port={}", metrics_->port());
  return absl::OkStatus();
}

Lorsad::~Lorsad() { Stop(); }

void Lorsad::Stop() {
  if (std::exchange(stopped_, true)) return;
  if (working_) Drain();  // 1
  jobs_.Stop();
  disk_user_.Stop();
  webhooks_.reset();
  scrubber_.reset();
  metrics_.reset();
  monitor_.reset();
  if (working_) fs_->Remove(layout_.EndpointFile()).IgnoreError();  // 2; the next start writes it
  if (server_ == nullptr) return;
  acceptor_.reset();                                                     // 3
  server_->Shutdown(std::chrono::system_clock::now() + kCallsDeadline);  // 3
  server_->Wait();
}

void Lorsad::Drain() {
  conditions_.Set(kDraining, "the server is stopping; call again once the next one runs");
  ReportHealth(conditions_, *server_->GetHealthCheckService());
  if (conditions_.Holds(kCatalogReadOnly)) GiveUpSpareRoom(*fs_, layout_);
  jobs_.BeginDrain();
  if (!jobs_.AwaitDrained(kDrainDeadline)) {
    spdlog::warn("event=drain_deadline message=\"workers go on; the next server hears of them\"");
  }
}

}  // namespace lorsa::server
