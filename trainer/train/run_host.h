// The interface through which a training run meets the world: data in, reports and checkpoints
// out, requests to stop, time and files. The worker implements it over its session with the
// server; a standalone run and the tests implement it locally.
#ifndef LORSA_TRAINER_TRAIN_RUN_HOST_H_
#define LORSA_TRAINER_TRAIN_RUN_HOST_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "activation_store/activation_set.h"
#include "base/file_system.h"
#include "base/memory_use.h"

namespace lorsa::trainer {

// Sequences in a fixed order. One thread, but for Cancel.
class SequenceSource {
 public:
  virtual ~SequenceSource() = default;
  // Fills `out`, reusing its memory; blocks until the sequence is there. OUT_OF_RANGE after the
  // last one of the held-out sequences (training has no last one). CANCELLED makes the run look at
  // stop_requested. Any other error ends the run with that error.
  virtual absl::Status Next(store::Sequence& out) = 0;
  // Makes a blocked or later Next return CANCELLED. Any thread.
  virtual void Cancel() = 0;
};

enum class MetricKind {
  kTraining,    // of one optimiser step
  kEvaluation,  // on the held-out sequences
};

// Keyed by (kind, step): a run that goes on from a checkpoint reports the steps after it again.
struct MetricPoint {
  MetricKind kind = MetricKind::kTraining;
  int64_t step = 0;                      // steps done; 0 is before training
  int64_t tokens = 0;                    // positions consumed by then
  std::map<std::string, double> values;  // by the names of docs/metrics.md; all finite
};

// Where the run stands; see lorsa.v1.JobProgress.
struct Progress {
  int64_t step = 0;
  int64_t total_steps = 0;
  int64_t tokens = 0;
  int64_t total_tokens = 0;
  double loss = 0;  // of the newest step; 0 before the first
  double l0 = 0;
  double tokens_per_second = 0;
  std::optional<double> fvu;                // of the newest evaluation
  std::optional<double> remaining_seconds;  // expected, once some steps were timed
  std::string phase;  // "initializing", "training", "evaluating", "checkpointing"
};

// A whole checkpoint, fsynced, in the staging folder.
struct StagedCheckpoint {
  std::string folder;  // its name: step-000001000
  std::string path;    // staging_folder()/folder
  int64_t step = 0;
  int64_t tokens = 0;
  std::string manifest_sha256;  // of its manifest.json, hex
  std::optional<double> fvu;    // held-out FVU of these weights, if they were evaluated
  bool scheduled = false;       // false for an extra one, made because of a stop request
};

enum class StopRequest {
  kNone,
  kPause,   // checkpoint, then stop; resumed on request
  kCancel,  // stop at once
  kDrain,   // checkpoint, then stop; resumed when there is a server again
};

// All methods are called from the thread that runs the training, but for PublishCheckpoint, which
// is called from another, one call at a time, while training goes on. Implementations outlive the
// run.
class RunHost {
 public:
  virtual ~RunHost() = default;

  // Training sequences, in the keyed order of the run's seed, from number `cursor` of it on.
  virtual absl::StatusOr<std::unique_ptr<SequenceSource>> OpenTraining(int64_t cursor) = 0;
  // The held-out sequences, once, in stored order.
  virtual absl::StatusOr<std::unique_ptr<SequenceSource>> OpenHeldOut() = 0;
  // Path of a local copy of the set's attention.safetensors; NOT_FOUND if the set has none.
  virtual absl::StatusOr<std::string> LoadAttentionWeights() = 0;

  // Must not block for long; points are in order of their step, but for a rollback, after which
  // steps are reported again.
  virtual void ReportMetrics(const MetricPoint& point) = 0;
  // After every step and at each change of phase; the host thins them out.
  virtual void ReportProgress(const Progress& progress) = 0;
  // The run waits on something that may pass ("DISK_FULL"); empty when it goes on.
  virtual void ReportWaiting(absl::string_view condition) = 0;
  // Something that the user should know of and that does not end the run: one sentence.
  virtual void ReportWarning(absl::string_view message) = 0;
  // A published checkpoint of this step does not verify and is not used; `why` is one sentence. The
  // host takes it off its list.
  virtual void ReportDamagedCheckpoint(int64_t step, absl::string_view why) = 0;

  // Folder in which checkpoints are written before they are published; it exists. May be used, as
  // may file_system(), by any thread of the run.
  virtual std::string staging_folder() = 0;
  // Publishes a staged checkpoint; returns when it is durable under its final name, with the folder
  // that it can be read from as long as it is kept. The newest scheduled one is always kept.
  // RESOURCE_EXHAUSTED (no space) makes the run wait and try again, CANCELLED makes it look at
  // stop_requested; any other error ends it.
  virtual absl::StatusOr<std::string> PublishCheckpoint(const StagedCheckpoint& checkpoint) = 0;
  // Makes a published checkpoint, named by its folder, readable on this machine: where it can be
  // read until the next call. NOT_FOUND or DATA_LOSS if it is not there whole any more;
  // RESOURCE_EXHAUSTED and CANCELLED as above.
  virtual absl::StatusOr<std::string> FetchCheckpoint(const std::string& folder) { return folder; }

  // Where the run keeps its list of rollbacks (rollback.h): a file that outlives an attempt.
  virtual std::string rollbacks_file() = 0;
  // Called when that file was written, before the run goes on by it: makes it outlive this machine.
  // RESOURCE_EXHAUSTED and CANCELLED as above.
  virtual absl::Status KeepRollbacks() { return absl::OkStatus(); }

  // Polled after each step, during evaluations and while waiting. Once not kNone it may only
  // become kCancel.
  virtual StopRequest stop_requested() = 0;

  // Of this process and machine.
  virtual absl::StatusOr<MemoryUse> memory_use() = 0;

  virtual absl::Time Now() = 0;         // for dates
  virtual absl::Duration Uptime() = 0;  // for durations, as MonotonicNow
  // May return early when a stop is requested.
  virtual void Sleep(absl::Duration duration) = 0;
  virtual FileSystem& file_system() = 0;
};

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_RUN_HOST_H_
