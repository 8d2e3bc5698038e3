// A pass over many bytes (registering and verifying a set, importing a checkpoint) as the source of
// a stream: progress now and then, then the outcome.
#ifndef LORSA_SERVER_SERVICES_SET_PASS_H_
#define LORSA_SERVER_SERVICES_SET_PASS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "activation_store/activation_set.h"
#include "base/exception_wall.h"
#include "lorsa/v1/activation_service.pb.h"
#include "server/rpc/executor.h"
#include "server/rpc/server_stream.h"

namespace lorsa::server {

// What the thread that makes the pass and the stream that reports it share. Thread-safe.
class PassProgress {
 public:
  PassProgress(Waker waker, std::function<absl::Time()> now)
      : waker_(std::move(waker)), now_(std::move(now)) {}

  // For the pass, as its store::ProgressFunction: false once the client is gone. Reports about
  // every half second and at each full percent, whatever the pace of the calls.
  bool Update(int64_t bytes_done, int64_t bytes_total);

  // For the stream: what was not taken yet.
  std::optional<v1::SetProgress> Take();
  void Cancel();
  bool cancelled() const;

 private:
  const Waker waker_;
  const std::function<absl::Time()> now_;
  mutable absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t last_percent_ ABSL_GUARDED_BY(mutex_) = -1;
  absl::Time last_time_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::optional<v1::SetProgress> unreported_ ABSL_GUARDED_BY(mutex_);
};

// Runs `work` on `executor`, a thread that nobody else waits for. `Response` has a field
// `progress`; `work` returns the last message. A client that vanishes cancels the pass.
template <typename Response>
class SetPass final : public StreamSource<Response> {
 public:
  using Work = std::function<absl::StatusOr<Response>(const store::ProgressFunction&)>;

  SetPass(Executor& executor, Waker waker, std::function<absl::Time()> now, Work work)
      : shared_(std::make_shared<Shared>(waker, std::move(now))) {
    executor.Schedule([shared = shared_, waker, work = std::move(work)] {
      absl::StatusOr<Response> outcome = absl::CancelledError("the client cancelled the pass");
      if (!shared->progress.cancelled()) {
        outcome = CatchExceptions([&] {
          return work(
              [&](int64_t done, int64_t total) { return shared->progress.Update(done, total); });
        });
      }
      {
        absl::MutexLock lock(&shared->mutex);
        shared->outcome = std::move(outcome);
      }
      waker();
    });
  }

  ~SetPass() override { shared_->progress.Cancel(); }

  absl::StatusOr<Pulled> Next(Response& message) override {
    message.Clear();
    if (delivered_) return Pulled::kEnd;
    if (std::optional<v1::SetProgress> progress = shared_->progress.Take()) {
      *message.mutable_progress() = *std::move(progress);
      return Pulled::kMessage;
    }
    absl::MutexLock lock(&shared_->mutex);
    if (!shared_->outcome.has_value()) return Pulled::kNothing;
    if (!shared_->outcome->ok()) return shared_->outcome->status();
    message = **shared_->outcome;
    delivered_ = true;
    return Pulled::kMessage;
  }

 private:
  struct Shared {
    Shared(Waker waker, std::function<absl::Time()> now)
        : progress(std::move(waker), std::move(now)) {}
    PassProgress progress;
    absl::Mutex mutex;
    std::optional<absl::StatusOr<Response>> outcome ABSL_GUARDED_BY(mutex);
  };

  const std::shared_ptr<Shared> shared_;
  bool delivered_ = false;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_SET_PASS_H_
