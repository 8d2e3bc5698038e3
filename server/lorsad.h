// The server: how its parts are put together, started and stopped.
#ifndef LORSA_SERVER_LORSAD_H_
#define LORSA_SERVER_LORSAD_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "activation_store/reader_pool.h"
#include "base/file_system.h"
#include "base/folder_lock.h"
#include "base/periodic_thread.h"
#include "server/catalog/catalog.h"
#include "server/condition_monitor.h"
#include "server/inspection/inspector.h"
#include "server/jobs/condition_log.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/job_watch.h"
#include "server/jobs/local_process_launcher.h"
#include "server/lorsad_options.h"
#include "server/metrics_endpoint.h"
#include "server/model/data_layout.h"
#include "server/rpc/authorization.h"
#include "server/rpc/call_lanes.h"
#include "server/rpc/connection_acceptor.h"
#include "server/rpc/open_streams.h"
#include "server/services/activation_roots.h"
#include "server/services/activation_service.h"
#include "server/services/checkpoint_service.h"
#include "server/services/job_service.h"
#include "server/services/metric_service.h"
#include "server/services/scrubber.h"
#include "server/services/server_conditions.h"
#include "server/services/server_info_service.h"
#include "server/services/set_quarantine.h"
#include "server/services/set_uploads.h"
#include "server/services/staged_uploads.h"
#include "server/services/worker_service.h"
#include "server/webhooks/http_post.h"
#include "server/webhooks/webhook_sender.h"

namespace lorsa::server {

// A running server. Start and Stop are called by one thread.
//
// Start:
//   1. take the data folder's lock
//   2. open the catalog, and upgrade it, once all that was named to the server is there
//   3. serve metrics, if an address for them is given
//   4. bring catalog and data folder together (jobs/data_adoption.h), before anybody is served
//   5. listen; health is NOT_SERVING (condition RECOVERING); make all threads
//   6. write the endpoint file, by which workers find the server; on a full disk, once it has room
//   7. look at the jobs of the server before, once; health is SERVING unless something is wrong
//      (condition_monitor.h), and is kept up to date from now on; sets and checkpoints are
//      scrubbed, webhooks of jobs that ended are called
// All that can fail comes before 7: a server that did not begin work leaves the workers of the
// server before it alone, and the next one adopts them.
// Stop, of a server that began work:
//   1. health is NOT_SERVING (condition DRAINING); workers checkpoint and leave, within a deadline;
//      if the catalog cannot be read, at once
//   2. remove the endpoint file
//   3. end the calls, within a deadline
class Lorsad {
 public:
  // An error is one sentence for the operator.
  static absl::StatusOr<std::unique_ptr<Lorsad>> Start(const LorsadOptions& options);
  ~Lorsad();

  void Stop();

  const std::string& address() const { return address_; }

 private:
  // What is opened before anything else is made.
  struct Foundation {
    DataLayout layout;
    std::unique_ptr<FolderLock> lock;
    std::unique_ptr<Catalog> catalog;
    ActivationRoots roots;
    std::string worker_program;
    std::string inspect_program;
    std::unique_ptr<store::ReaderPool> readers;
    std::string webhook_key;  // empty = no webhooks
  };
  static absl::StatusOr<Foundation> Prepare(FileSystem& fs, const LorsadOptions& options);

  Lorsad(const LorsadOptions& options, Foundation foundation);
  absl::Status Listen(const ListenAddress& wanted);
  void Configure(grpc::ServerBuilder& builder) const;
  absl::Status ServeMetrics();  // 3
  absl::Status AdoptData();     // 4
  void PrepareWork();           // 5; the threads that begin in 7 included
  void PrepareWebhooks();       // 5
  void BeginWork();             // 6, 7
  // Why no job can be started just now; empty if nothing is in the way.
  std::string LaunchObstacle() const;
  void UseDisk();
  std::string StreamShortage() const;
  MonitorEnvironment Monitored();
  void Drain();

  // In the order in which they are needed: each outlives what stands below it.
  const LorsadOptions options_;
  const std::unique_ptr<FileSystem> fs_;
  const DataLayout layout_;
  const std::unique_ptr<FolderLock> lock_;
  const std::unique_ptr<Catalog> catalog_;
  const absl::Time start_time_;
  const std::string webhook_key_;
  ServerConditions conditions_;
  JobWatchHub watchers_;
  LocalProcessLauncher launcher_;
  const JobKinds kinds_;
  JobManager jobs_;
  OpenStreams streams_;
  OpenStreams answers_;
  CallRecords records_;
  const CallEnvironment calls_;
  const LaneThreads threads_;
  const std::unique_ptr<store::ReaderPool> readers_;
  const Inspector inspector_;
  SetQuarantine quarantine_;
  SetUploads set_uploads_;
  StagedUploads staged_uploads_;
  ServerInfoService server_info_service_;
  ActivationService activation_service_;
  CheckpointService checkpoint_service_;
  JobService job_service_;
  MetricService metric_service_;
  WorkerService worker_service_;
  std::string address_;  // HOST:PORT
  std::unique_ptr<ConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ConditionMonitor> monitor_;
  std::unique_ptr<MetricsEndpoint> metrics_;
  std::unique_ptr<Scrubber> scrubber_;
  std::unique_ptr<HttpPost> webhook_calls_;
  std::unique_ptr<WebhookSender> webhooks_;
  bool endpoint_written_ = false;
  ConditionLog endpoint_log_{"endpoint_not_written"};
  PeriodicThread disk_user_;
  bool working_ = false;  // began
  bool stopped_ = false;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_LORSAD_H_
