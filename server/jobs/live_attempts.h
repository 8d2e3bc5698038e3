// What the running server knows of attempts besides the catalog: connections, newest progress,
// deadlines. Lost with the process, and rebuilt by workers reconnecting.
#ifndef LORSA_SERVER_JOBS_LIVE_ATTEMPTS_H_
#define LORSA_SERVER_JOBS_LIVE_ATTEMPTS_H_

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "lorsa/v1/worker_service.pb.h"
#include "server/catalog/catalog.h"

namespace lorsa::server {

// The server's way to one connected worker. Implemented by the RPC layer; thread-safe; never
// blocks, and calls nothing of this folder.
class WorkerConnection {
 public:
  virtual ~WorkerConnection() = default;
  // Queues a message. The queue stays short: a command, or the answer to what the worker sent.
  virtual void Send(const v1::ServerMessage& message) = 0;
  // Ends the stream with `status` after what was sent.
  virtual void Close(const absl::Status& status) = 0;
};

// One entry per job at most, that of its newest attempt seen. Thread-safe; never blocks.
class LiveAttempts {
 public:
  // Where the clocks of an attempt stand. Begins an entry, heard of at `now`, if there is none or
  // only one of an older attempt.
  struct Clocks {
    absl::Time last_heard;
    // When a job being cancelled is killed. Set by SetKillTime.
    absl::Time kill_at = absl::InfiniteFuture();
  };
  Clocks Observe(const AttemptKey& attempt, absl::Time now);
  void Heard(const AttemptKey& attempt, absl::Time now);
  // The earliest time given stands.
  void SetKillTime(const AttemptKey& attempt, absl::Time kill_at);

  // Makes `connection` the attempt's; returns the one it replaces, or null.
  std::shared_ptr<WorkerConnection> Attach(const AttemptKey& attempt,
                                           std::shared_ptr<WorkerConnection> connection);
  // Forgets `connection` if it still is the attempt's.
  void Detach(const AttemptKey& attempt, const WorkerConnection* connection);
  void SendCommand(const AttemptKey& attempt, v1::Command command);

  void SetProgress(const AttemptKey& attempt, const v1::JobProgress& progress);
  // What the attempt waits for; returns what it waited for before.
  std::string SetWaitingFor(const AttemptKey& attempt, absl::string_view waiting_for);
  // Sets progress and waiting_for of `job`, whose id and attempt `key` holds.
  void FillIn(const AttemptKey& key, v1::Job& job) const;
  std::optional<v1::JobProgress> Progress(absl::string_view job_id) const;

  // The attempt is over: closes its connection with `status`.
  void End(const AttemptKey& attempt, const absl::Status& status);
  // Closes every connection with `status`.
  void CloseAll(const absl::Status& status);

 private:
  struct Entry {
    int attempt = 0;
    Clocks clocks;
    std::shared_ptr<WorkerConnection> connection;
    std::optional<v1::JobProgress> progress;
    std::string waiting_for;
  };
  // The entry of this very attempt, or null.
  Entry* Find(const AttemptKey& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  std::map<std::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_LIVE_ATTEMPTS_H_
