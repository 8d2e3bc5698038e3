#include "server/rpc/open_streams.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace lorsa::server {
namespace {

constexpr auto kLongestInterval = std::chrono::seconds(5);

int64_t SteadyNanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Unlike Finish, this also ends a call that has a message on its way, and unlike TryCancel it tells
// the client why.
void EndCall(grpc::CallbackServerContext& context, const absl::Status& status) {
  grpc_call_cancel_with_status(context.c_call(), static_cast<grpc_status_code>(status.code()),
                               std::string(status.message()).c_str(), nullptr);
}

}  // namespace

OpenStreams::Stream::~Stream() {
  absl::MutexLock lock(&all_.mutex_);
  all_.streams_.erase(this);
}

void OpenStreams::Stream::AwaitClient() { awaiting_since_ = SteadyNanoseconds(); }

OpenStreams::OpenStreams(absl::string_view kind, const StreamLimits& limits)
    : stall_(limits.stall),
      slots_(kind, limits.bounds),
      thread_([this](const std::stop_token& stop) {
        const auto interval = std::min<std::chrono::nanoseconds>(
            kLongestInterval, absl::ToChronoNanoseconds(stall_ / 4));
        std::mutex mutex;
        std::condition_variable_any wake;
        std::unique_lock lock(mutex);
        while (!stop.stop_requested()) {
          EndStalled();
          wake.wait_for(lock, stop, interval, [] { return false; });
        }
      }) {}

absl::StatusOr<std::unique_ptr<OpenStreams::Stream>> OpenStreams::Open(
    const Caller& caller, grpc::CallbackServerContext& context) {
  LORSA_ASSIGN_OR_RETURN(std::shared_ptr<void> slot, slots_.Take(caller));
  std::unique_ptr<Stream> stream(new Stream(*this, context, std::move(slot)));
  absl::MutexLock lock(&mutex_);
  streams_.insert(stream.get());
  return stream;
}

// The lock keeps the streams' contexts alive. gRPC runs the reactions to the end of a call on
// threads of its own.
void OpenStreams::EndStalled() {
  const absl::Status status = absl::UnavailableError(
      absl::StrCat("the client was idle for ", absl::FormatDuration(stall_),
                   " while the server waited for it; open the stream again where it ended"));
  const int64_t latest = SteadyNanoseconds() - absl::ToInt64Nanoseconds(stall_);
  absl::MutexLock lock(&mutex_);
  for (Stream* stream : streams_) {
    int64_t since = stream->awaiting_since_;
    if (since == Stream::kNotAwaiting || since > latest) continue;
    // Not if the client has acted just now.
    if (!stream->awaiting_since_.compare_exchange_strong(since, Stream::kNotAwaiting)) continue;
    EndCall(stream->context_, status);
  }
}

}  // namespace lorsa::server
