#include "server/services/scrubber.h"

#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "base/exception_wall.h"
#include "base/monotonic_clock.h"
#include "server/jobs/checkpoint_files.h"

namespace lorsa::server {
namespace {

// Between two looks at what is due lies the interval, but not less or more than these.
constexpr absl::Duration kMinPause = absl::Seconds(1);
constexpr absl::Duration kMaxPause = absl::Minutes(1);
constexpr int kCheckpointsPerPass = 100;
constexpr int kSetsPerPage = 100;

// Slows a pass down to a bound on its speed.
class Throttle {
 public:
  explicit Throttle(int64_t bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  void Wait(int64_t bytes_done) const {
    if (bytes_per_second_ == 0) return;
    const absl::Duration due =
        absl::Seconds(static_cast<double>(bytes_done) / static_cast<double>(bytes_per_second_));
    absl::SleepFor(start_ + due - MonotonicNow());  // nothing for a time that has passed
  }

 private:
  const int64_t bytes_per_second_;
  const absl::Duration start_ = MonotonicNow();
};

class Pass {
 public:
  Pass(const ScrubberEnvironment& environment, const std::stop_token& stop)
      : env_(environment), stop_(stop), due_(env_.now() - env_.interval) {}

  void ScrubSets() {
    std::string after_id;
    while (!stop_.stop_requested()) {
      const auto sets = env_.catalog.ListActivationSets(after_id, kSetsPerPage);
      if (!sets.ok()) return LogFailure("sets", sets.status());
      for (const v1::ActivationSet& set : *sets) ScrubSetIfDue(set);
      if (sets->size() < kSetsPerPage) return;
      after_id = sets->back().name().substr(sets->back().name().rfind('/') + 1);
    }
  }

  void ScrubCheckpoints() {
    const auto checkpoints = env_.catalog.UnverifiedCheckpoints(due_, kCheckpointsPerPass);
    if (!checkpoints.ok()) return LogFailure("checkpoints", checkpoints.status());
    for (const v1::Checkpoint& checkpoint : *checkpoints) {
      if (!stop_.stop_requested()) ScrubCheckpoint(checkpoint);
    }
  }

 private:
  void ScrubSetIfDue(const v1::ActivationSet& set) {
    const auto last_look = absl::FromUnixNanos(
        google::protobuf::util::TimeUtil::TimestampToNanoseconds(set.verify_time()));
    if (stop_.stop_requested() || last_look >= due_ ||
        set.state() != v1::ACTIVATION_SET_STATE_READY) {
      return;
    }
    const Throttle throttle(env_.max_bytes_per_second);
    const absl::Status verified = env_.quarantine
                                      .Verify(set,
                                              [&](int64_t done, int64_t) {
                                                throttle.Wait(done);
                                                return !stop_.stop_requested();
                                              })
                                      .status();
    if (!verified.ok() && !absl::IsCancelled(verified)) LogFailure(set.name(), verified);
  }

  void ScrubCheckpoint(const v1::Checkpoint& checkpoint) {
    const std::string job_id = JobIdOfCheckpoint(checkpoint.name());
    const absl::Status held =
        VerifyCheckpointFiles(env_.fs, env_.layout.CheckpointFolder(job_id, checkpoint.step()),
                              ManifestSha256(checkpoint))
            .status();
    if (!held.ok() && !IsDamage(held)) return LogFailure(checkpoint.name(), held);
    const absl::StatusOr<bool> stored =
        env_.catalog.PutVerdict(job_id, checkpoint, held.ok() ? "" : held.message(), env_.now());
    if (!stored.ok()) return LogFailure(checkpoint.name(), stored.status());
    if (*stored && !held.ok() && checkpoint.damage().empty()) {
      spdlog::error("event=checkpoint_damaged checkpoint={} error=\"{}\"", checkpoint.name(),
                    std::string(held.message()));
    }
  }

  static void LogFailure(const std::string& what, const absl::Status& status) {
    spdlog::warn("event=scrub_failed what={} error=\"{}\"", what, status.ToString());
  }

  const ScrubberEnvironment& env_;
  const std::stop_token& stop_;
  const absl::Time due_;  // what was looked at since then is left alone
};

}  // namespace

void ScrubOnce(const ScrubberEnvironment& environment, const std::stop_token& stop) {
  Pass pass(environment, stop);
  pass.ScrubSets();
  pass.ScrubCheckpoints();
}

Scrubber::Scrubber(const ScrubberEnvironment& environment)
    : thread_([environment](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any wake;
        std::unique_lock lock(mutex);
        const auto pause =
            absl::ToChronoMilliseconds(std::clamp(environment.interval, kMinPause, kMaxPause));
        while (!stop.stop_requested()) {
          const absl::Status scrubbed = CatchExceptions([&] {
            ScrubOnce(environment, stop);
            return absl::OkStatus();
          });
          if (!scrubbed.ok()) {
            spdlog::error("event=scrub_failed error=\"{}\"", scrubbed.ToString());
          }
          wake.wait_for(lock, stop, pause, [] { return false; });
        }
      }) {}

}  // namespace lorsa::server
