// What the running server knows of attempts besides the catalog: connections, newest progress,
// deadlines. Lost with the process, and rebuilt as workers reconnect.
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
#include "server/rpc/bidi_stream.h"

namespace lorsa::server {

// The server's way to one connected worker.
using WorkerConnection = BidiSender<v1::ServerMessage>;

// When an attempt last gave a sign, in JobEnvironment::uptime.
struct LastSigns {
  absl::Duration heard;       // any message
  absl::Duration progressed;  // a step, or another phase of the run
};

// One entry per job at most: that of its newest attempt seen. What is said of an older attempt is
// ignored. Thread-safe; never blocks.
class LiveAttempts {
 public:
  // Times here are JobEnvironment::uptime.
  //
  // Begins an entry, with both signs at `now`, unless the attempt has one. Returns its signs. From
  // the arrival of a message until it is handled the attempt counts as heard, since what it sends
  // meanwhile is not read, and the time does not count as one without progress. Nor does that in
  // which it says what it waits for.
  LastSigns Observe(const AttemptKey& attempt, absl::Duration now);
  // The server could not have heard it until now: its silence counts from now on.
  void Excuse(const AttemptKey& attempt, absl::Duration now);
  // A piece of a file has come from it: as good as a message and as a step.
  void Transferred(const AttemptKey& attempt, absl::Duration now);
  // From the arrival of a message to the end of its handling.
  void BeginHandling(const AttemptKey& attempt, absl::Duration now);
  void EndHandling(const AttemptKey& attempt, absl::Duration now);
  // When the attempt, told to cancel, is to be killed: what the first call says.
  absl::Duration KillTime(const AttemptKey& attempt, absl::Duration if_first);

  // Makes `connection` the attempt's and closes the one that it replaces. False if the attempt has
  // no entry: it is over.
  bool Attach(const AttemptKey& attempt, std::shared_ptr<WorkerConnection> connection);
  // Forgets `connection` if it still is the attempt's.
  void Detach(const AttemptKey& attempt, const WorkerConnection* connection);
  // Sends `command` if the attempt is connected and this connection has not had it.
  void Command(const AttemptKey& attempt, v1::Command command);

  // False if the attempt has no entry: it is over.
  bool SetProgress(const AttemptKey& attempt, const v1::JobProgress& progress, absl::Duration now);
  // What the attempt waits for, empty for nothing.
  void SetWaitingFor(const AttemptKey& attempt, absl::string_view waiting_for);
  // The job's history says so now.
  void WaitingForRecorded(const AttemptKey& attempt, absl::string_view waiting_for);
  // Whether the job's history says so. True if the attempt has no entry.
  bool HistorySays(const AttemptKey& attempt, absl::string_view waiting_for);
  // Newest progress of the job; empty before the first.
  std::optional<v1::JobProgress> Progress(absl::string_view job_id) const;
  std::string WaitingFor(absl::string_view job_id) const;

  // The attempt is over: forgets it and closes its connection with `status`.
  void End(const AttemptKey& attempt, const absl::Status& status);
  // Closes every connection with `status` and forgets all.
  void EndAll(const absl::Status& status);

 private:
  struct Entry {
    int attempt = 0;
    LastSigns signs;
    int being_handled = 0;  // messages; an older connection's may be among them
    absl::Duration handled_since;
    std::optional<absl::Duration> kill_time;
    std::shared_ptr<WorkerConnection> connection;
    v1::Command last_command = v1::COMMAND_UNSPECIFIED;  // sent on this connection
    std::optional<v1::JobProgress> progress;
    std::string waiting_for;
    std::string recorded_waiting_for;
  };
  // The entry of this very attempt, or null.
  Entry* Find(const AttemptKey& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  std::map<std::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_LIVE_ATTEMPTS_H_
