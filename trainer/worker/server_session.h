// The worker's end of WorkerService.Session: keeps one session open through server restarts, and
// lets the training loop report without waiting for the network.
#ifndef LORSA_TRAINER_WORKER_SERVER_SESSION_H_
#define LORSA_TRAINER_WORKER_SERVER_SESSION_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/monotonic_clock.h"
#include "base/process_identity.h"
#include "lorsa/v1/worker_service.grpc.pb.h"
#include "trainer/worker/server_channel.h"

namespace lorsa::worker {

struct SessionOptions {
  absl::Duration heartbeat_interval = absl::Seconds(1);
  absl::Duration min_backoff = absl::Milliseconds(100);
  absl::Duration max_backoff = absl::Seconds(5);
  // Without contact for so long, the session ends with UNAVAILABLE: an orphan does not live
  // forever.
  absl::Duration give_up_after = absl::Hours(1);
  // Points that may wait for a server that is away; AddMetrics blocks beyond.
  size_t max_waiting_points = 65536;
};

// What is sent is kept until the server acknowledges it, and sent again after a reconnect. Once the
// server refuses this attempt (it is stale, or the job has ended), or the server stayed away for
// too long, every call returns that error and the worker must exit. All methods are thread-safe.
class ServerSession {
 public:
  // `channel` outlives the session.
  ServerSession(ServerChannel& channel, ProcessIdentity self, SessionOptions options = {});
  ~ServerSession();  // breaks the connection

  // Connects and waits for the first welcome. Call once, first.
  absl::StatusOr<v1::Welcome> Start();

  // Sent with the next heartbeat.
  void SetProgress(v1::JobProgress progress);
  void SetWaitingFor(std::string condition);

  // Queues a point; blocks only while too many wait.
  absl::Status AddMetrics(v1::MetricPoint point);

  // Queues something for the job's history; the oldest go once many wait. Lost if the connection
  // breaks while it is sent.
  void AddWarning(v1::WorkerWarning warning);

  // Asks the server to publish a staged checkpoint, and waits for its answer: OK when it is
  // published; RESOURCE_EXHAUSTED if the server could not for now and it is worth trying again;
  // INTERNAL if the server refused it.
  absl::Status PublishCheckpoint(v1::CheckpointStaged staged);

  // The newest command, COMMAND_UNSPECIFIED if there was none.
  v1::Command command() const;

  // OK, or why this worker must exit.
  absl::Status status() const;

  // Waits until all metrics are durable, sends the outcome and waits for it to be recorded, at most
  // `timeout` in all.
  absl::Status Finish(v1::WorkerOutcome outcome, absl::Duration timeout);

 private:
  using Stream = grpc::ClientReaderWriter<v1::WorkerMessage, v1::ServerMessage>;

  void Run();
  absl::Status RunOnce();
  absl::Status LastWord(const absl::Status& status) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void ReadLoop(Stream& stream);
  void Handle(const v1::ServerMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool WriteLoop(Stream& stream);
  std::optional<v1::WorkerMessage> NextMessage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::MetricBatch NextBatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RequeueUnanswered() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndWith(absl::Status status);
  bool SomethingToSend() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  ServerChannel& channel_;
  const ProcessIdentity self_;
  const SessionOptions options_;

  mutable absl::Mutex mutex_;
  TimedCondition changed_;  // anything of what follows that somebody waits for
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool stream_broken_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration last_contact_ ABSL_GUARDED_BY(mutex_);  // MonotonicNow, as next_heartbeat_
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;  // of the open stream

  std::optional<v1::Welcome> welcome_ ABSL_GUARDED_BY(mutex_);
  v1::Command command_ ABSL_GUARDED_BY(mutex_) = v1::COMMAND_UNSPECIFIED;

  v1::JobProgress progress_ ABSL_GUARDED_BY(mutex_);
  std::string waiting_for_ ABSL_GUARDED_BY(mutex_);
  absl::Duration next_heartbeat_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();

  // Points not yet in a batch; batches not yet acknowledged, oldest first, of which the first
  // `batches_sent_` went out on this connection.
  std::deque<v1::MetricPoint> points_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::MetricBatch> batches_ ABSL_GUARDED_BY(mutex_);
  size_t batches_sent_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t next_batch_ ABSL_GUARDED_BY(mutex_) = 1;

  std::deque<v1::WorkerWarning> warnings_ ABSL_GUARDED_BY(mutex_);  // not yet sent

  std::optional<v1::CheckpointStaged> staged_ ABSL_GUARDED_BY(mutex_);
  bool staged_sent_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<v1::CheckpointPublished> published_ ABSL_GUARDED_BY(mutex_);

  std::optional<v1::WorkerOutcome> outcome_ ABSL_GUARDED_BY(mutex_);
  bool outcome_sent_ ABSL_GUARDED_BY(mutex_) = false;
  bool outcome_recorded_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace lorsa::worker

#endif  // LORSA_TRAINER_WORKER_SERVER_SESSION_H_
