// Sequences streamed from lorsad, read ahead of the training loop.
#ifndef LORSA_TRAINER_WORKER_REMOTE_SOURCE_H_
#define LORSA_TRAINER_WORKER_REMOTE_SOURCE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "activation_store/activation_set.h"
#include "base/monotonic_clock.h"
#include "lorsa/v1/activation_service.grpc.pb.h"
#include "trainer/train/run_host.h"
#include "trainer/worker/server_channel.h"

namespace lorsa::worker {

// One StreamSequences call, opened again at the right cursor when its connection breaks. A reader
// thread keeps up to `max_buffered_bytes` ready, at least one message. One consumer thread.
class RemoteSource final : public trainer::SequenceSource {
 public:
  struct Options {
    v1::StreamSequencesRequest request;  // name, subset, seed, first cursor; limit 0
    int64_t end = 0;                     // cursor after the last sequence; 0 = without end
    int64_t max_buffered_bytes = 64 << 20;
    // Asked between reconnects, in a thread of the source's own: true makes the source give up with
    // CANCELLED.
    std::function<bool()> give_up;
    // Called in that thread with true when the server has no room for the stream, and with false
    // when it has again.
    std::function<void(bool)> crowded_out = [](bool) {};
  };

  // `channel` outlives the source.
  RemoteSource(ServerChannel& channel, Options options);
  ~RemoteSource() override;  // cancels the call

  absl::Status Next(store::Sequence& out) override;
  void Cancel() override;

 private:
  void Run();
  absl::Status ReadStream();
  absl::Status Append(const v1::StreamSequencesResponse& message);
  void End(absl::Status status);
  void NoteCrowdedOut(bool crowded_out);

  ServerChannel& channel_;
  const Options options_;
  bool crowded_out_ = false;  // of thread_ alone

  absl::Mutex mutex_;
  std::deque<store::Sequence> ready_ ABSL_GUARDED_BY(mutex_);
  int64_t ready_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t cursor_ ABSL_GUARDED_BY(mutex_);    // of the next sequence to come in
  absl::Status end_ ABSL_GUARDED_BY(mutex_);  // not OK once no more will come in
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  TimedCondition stopped_;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;
};

}  // namespace lorsa::worker

#endif  // LORSA_TRAINER_WORKER_REMOTE_SOURCE_H_
