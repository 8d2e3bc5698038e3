#include "server/lorsad.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "activation_store/manifest.h"
#include "base/machine_memory.h"
#include "base/status_macros.h"

namespace lorsa::server {
namespace {

constexpr int kControlThreads = 4;
constexpr int kDataThreads = 4;
// Requests are small; sequences, the only large messages, go out.
constexpr int kMaxReceiveBytes = 4 << 20;
// The largest message is one sequence: its activations have at most 1 GiB (activation_store/
// manifest.h); tokens, mask and what frames them stay far below the rest.
constexpr int kMaxSendBytes = store::kMaxSequenceBytes + (16 << 20);
constexpr int kMaxMetadataBytes = 16 << 10;
constexpr int kMaxStreamsPerConnection = 1000;
constexpr size_t kMaxTransportBytes = size_t{1} << 30;
constexpr absl::Duration kDrainDeadline = absl::Seconds(120);
constexpr auto kCallsDeadline = std::chrono::seconds(3);

std::string SetsFolder(const DataLayout& layout) { return JoinPath(layout.root(), "sets"); }

std::string ProgramFolder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

ServerDescription Describe(const LorsadOptions& options, const ActivationRoots& roots,
                           const DataLayout& layout) {
  return {.version = kVersion,
          .start_time = absl::Now(),
          .activation_roots = roots.roots(),
          .data_folder = layout.root(),
          .max_running_jobs = options.max_running_jobs,
          .max_message_bytes = kMaxReceiveBytes};
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

void Configure(grpc::ServerBuilder& builder) {
  // Without this a second server would silently share the port.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  builder.SetMaxSendMessageSize(kMaxSendBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  // A peer that vanished without a word is noticed within a minute; clients may ask as often.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 40'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.SetResourceQuota(grpc::ResourceQuota("lorsad").Resize(kMaxTransportBytes));
}

// Where programs on this machine reach a server that listens on `host`.
std::string LocalHost(const std::string& host) {
  if (host == "0.0.0.0") return "127.0.0.1";
  return host == "[::]" ? "[::1]" : host;
}

void WarnIfReachable(const ListenAddress& address) {
  if (IsLoopback(address.host)) return;
  spdlog::warn(
      "event=listening_beyond_loopback host={} message=\"there is no authentication yet: whoever "
      "reaches this port may run jobs and read activations and checkpoints\"",
      address.host);
}

}  // namespace

absl::StatusOr<Lorsad::Foundation> Lorsad::Prepare(FileSystem& fs, const LorsadOptions& options) {
  // Absolute, since workers get paths below it and have another working folder.
  const DataLayout layout(std::filesystem::absolute(options.data_folder).lexically_normal());
  LORSA_RETURN_IF_ERROR(fs.CreateDirectories(SetsFolder(layout)));
  LORSA_ASSIGN_OR_RETURN(auto lock, FolderLock::Acquire(layout.LockFile()));  // 1
  LORSA_ASSIGN_OR_RETURN(auto catalog, Catalog::Open(layout.CatalogFile()));  // 2
  std::vector<std::string> folders = options.activation_roots;
  folders.push_back(SetsFolder(layout));
  LORSA_ASSIGN_OR_RETURN(ActivationRoots roots, ActivationRoots::Create(folders));
  const std::string worker = options.worker_binary.empty()
                                 ? JoinPath(ProgramFolder(), "lorsa-worker")
                                 : std::filesystem::absolute(options.worker_binary).string();
  LORSA_ASSIGN_OR_RETURN(const bool worker_exists, fs.Exists(worker));
  if (!worker_exists) {
    return absl::NotFoundError(absl::StrCat("there is no ", worker,
                                            ": build lorsa-worker, or name it with "
                                            "--worker-binary"));
  }
  return Foundation{.layout = layout,
                    .lock = std::move(lock),
                    .catalog = std::move(catalog),
                    .roots = std::move(roots),
                    .worker_binary = worker};
}

absl::StatusOr<std::unique_ptr<Lorsad>> Lorsad::Start(const LorsadOptions& options) {
  auto fs = std::make_unique<PosixFileSystem>();
  LORSA_ASSIGN_OR_RETURN(const ListenAddress wanted, ParseListenAddress(options.listen));
  LORSA_ASSIGN_OR_RETURN(Foundation foundation, Prepare(*fs, options));  // 1, 2
  std::unique_ptr<Lorsad> lorsad(new Lorsad(options, std::move(fs), std::move(foundation)));
  LORSA_RETURN_IF_ERROR(lorsad->Listen(wanted));  // 3
  LORSA_RETURN_IF_ERROR(WriteFileAtomically(*lorsad->fs_, lorsad->layout_.EndpointFile(),
                                            lorsad->address_ + "\n"));  // 4
  lorsad->jobs_.Start();                                                // 5
  lorsad->SetServing(true);
  return lorsad;
}

Lorsad::Lorsad(const LorsadOptions& options, std::unique_ptr<FileSystem> fs, Foundation foundation)
    : options_(options),
      fs_(std::move(fs)),
      layout_(foundation.layout),
      lock_(std::move(foundation.lock)),
      catalog_(std::move(foundation.catalog)),
      launcher_(foundation.worker_binary),
      jobs_({.capacity = CapacityFor(options)}, {.catalog = *catalog_,
                                                 .fs = *fs_,
                                                 .launcher = launcher_,
                                                 .watchers = watchers_,
                                                 .layout = layout_,
                                                 .now = absl::Now,
                                                 .random_bytes = SystemRandomBytes}),
      authorizer_(MethodRules(), jobs_.sessions()),
      control_executor_(kControlThreads),
      data_executor_(kDataThreads),
      control_{control_executor_, authorizer_},
      data_{data_executor_, authorizer_},
      server_info_service_(control_, *catalog_, *fs_, Describe(options, foundation.roots, layout_)),
      activation_service_({.runtime = data_,
                           .catalog = *catalog_,
                           .fs = *fs_,
                           .roots = foundation.roots,
                           .now = absl::Now}),
      checkpoint_service_({.runtime = data_, .catalog = *catalog_, .fs = *fs_, .layout = layout_}),
      job_service_(
          {.runtime = control_,
           .jobs = jobs_,
           .catalog = *catalog_,
           .fs = *fs_,
           .watchers = watchers_,
           .layout = layout_,
           .planning = {.machine = ThisMachine(), .capacity = jobs_.capacity(), .now = absl::Now}}),
      metric_service_(control_, *catalog_, watchers_),
      worker_service_(control_, jobs_.sessions()) {}

absl::Status Lorsad::Listen(const ListenAddress& wanted) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  Configure(builder);
  int port = 0;
  builder.AddListeningPort(absl::StrCat(wanted.host, ":", wanted.port),
                           grpc::InsecureServerCredentials(), &port);
  for (grpc::Service* service : std::initializer_list<grpc::Service*>{
           &server_info_service_, &activation_service_, &checkpoint_service_, &job_service_,
           &metric_service_, &worker_service_}) {
    builder.RegisterService(service);
  }
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", options_.listen,
                                               ": the address is in use or not this machine's; "
                                               "name another with --listen"));
  }
  SetServing(false);
  address_ = absl::StrCat(LocalHost(wanted.host), ":", port);
  WarnIfReachable(wanted);
  return absl::OkStatus();
}

void Lorsad::SetServing(bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(serving);
}

Lorsad::~Lorsad() { Stop(); }

void Lorsad::Stop() {
  if (std::exchange(stopped_, true) || server_ == nullptr) return;
  SetServing(false);  // 1
  jobs_.BeginDrain();
  if (!jobs_.AwaitDrained(kDrainDeadline)) {
    spdlog::warn("event=drain_deadline message=\"workers go on; the next server hears of them\"");
  }
  jobs_.Stop();
  fs_->Remove(layout_.EndpointFile()).IgnoreError();  // 2; the next start writes it anew
  server_->Shutdown(std::chrono::system_clock::now() + kCallsDeadline);  // 3
  server_->Wait();
}

}  // namespace lorsa::server
