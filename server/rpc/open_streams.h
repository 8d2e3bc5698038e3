// What is open to clients: bounds on its number, and an end for what its client leaves unread.
#ifndef LORSA_SERVER_RPC_OPEN_STREAMS_H_
#define LORSA_SERVER_RPC_OPEN_STREAMS_H_

#include <grpcpp/server_context.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <unordered_set>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/rpc/authorization.h"
#include "server/rpc/stream_slots.h"

namespace lorsa::server {

struct StreamLimits {
  StreamBounds bounds;
  // A client that takes nothing of what waits for it, or sends nothing of what it announced, for
  // this long is stalled.
  absl::Duration stall = absl::Minutes(10);
};

// Thread-safe. A thread of its own looks for stalled streams and ends their calls with UNAVAILABLE,
// which clients answer by opening the stream again where it ended.
class OpenStreams {
 public:
  // A stream that is open, until this is destroyed. The methods are called one at a time.
  class Stream {
   public:
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    // From now on it is the client's turn …
    void AwaitClient();
    // … until it has taken, or sent, something.
    void ClientActed() { awaiting_since_ = kNotAwaiting; }

   private:
    friend class OpenStreams;
    static constexpr int64_t kNotAwaiting = -1;
    Stream(OpenStreams& all, grpc::CallbackServerContext& context, std::shared_ptr<void> slot)
        : all_(all), context_(context), slot_(std::move(slot)) {}

    OpenStreams& all_;
    grpc::CallbackServerContext& context_;
    const std::shared_ptr<void> slot_;
    std::atomic<int64_t> awaiting_since_ = kNotAwaiting;  // steady nanoseconds
  };

  // `kind`, a literal, is what errors call them: "streams".
  OpenStreams(absl::string_view kind, const StreamLimits& limits);
  // No stream is open by then.
  ~OpenStreams() = default;

  // Counts the call of `context`, which outlives the result. Errors are those of StreamSlots.
  absl::StatusOr<std::unique_ptr<Stream>> Open(const Caller& caller,
                                               grpc::CallbackServerContext& context);

  // As StreamSlots.
  std::string Shortage() const { return slots_.Shortage(); }

 private:
  void EndStalled() ABSL_LOCKS_EXCLUDED(mutex_);

  const absl::Duration stall_;
  StreamSlots slots_;
  absl::Mutex mutex_;
  std::unordered_set<Stream*> streams_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_OPEN_STREAMS_H_
