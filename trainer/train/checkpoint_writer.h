// Checkpoints written while training goes on.
//
// Start copies the state and hands it to a thread of its own, which writes, fsyncs and publishes
// it. At most one is in flight: whoever wants the next one, the end of the run or a rollback waits
// for it first, so publications keep the order of the steps. While the disk is full, training goes
// on and the copy is tried again from time to time; the run stands still only where it must wait.
#ifndef LORSA_TRAINER_TRAIN_CHECKPOINT_WRITER_H_
#define LORSA_TRAINER_TRAIN_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/train/checkpoint.h"
#include "trainer/train/run_host.h"

namespace lorsa::trainer {

// Repeats `write` while the disk is full, with the condition shown; RESOURCE_EXHAUSTED only if a
// stop was requested meanwhile.
absl::Status WaitForSpace(RunHost& host, absl::FunctionRef<absl::Status()> write);

// What a checkpoint is published as, besides its files.
struct CheckpointLabel {
  int64_t tokens = 0;
  std::optional<double> fvu;
  bool scheduled = false;
};

// All methods are called from the thread that runs the training; only RunHost::PublishCheckpoint
// runs in another. `host` outlives it.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(RunHost& host) : host_(host) {}
  // Waits for the try that is under way; what it could not publish is lost.
  ~CheckpointWriter();

  // Whether a checkpoint is on its way.
  bool busy() const { return job_ != nullptr; }

  // Copies the tensors of `contents` and begins to write. Must not be busy. Throws c10::Error.
  void Start(CheckpointContents contents, const CheckpointLabel& label);

  // Looks at what is under way, without waiting, and tries again after a full disk when it is time.
  // The folder of a checkpoint that was published since the last call, if any; the error that ended
  // one for good. Call it often.
  absl::StatusOr<std::optional<std::string>> Poll();

  // Waits until there is nothing under way, as long as the disk is full unless a stop is requested:
  // then RESOURCE_EXHAUSTED, and the checkpoint is given up. Else as Poll.
  absl::StatusOr<std::optional<std::string>> Finish();

 private:
  struct Job {
    CheckpointContents contents;  // tensors of its own, on the CPU
    StagedCheckpoint staged;
    absl::Time created;
  };

  void Launch();
  absl::StatusOr<std::string> WriteAndPublish(Job& job);
  // Of a try that has ended.
  absl::StatusOr<std::optional<std::string>> Conclude();
  void GiveUp();
  void SetWaiting(bool waiting);

  RunHost& host_;
  std::unique_ptr<Job> job_;
  std::future<absl::StatusOr<std::string>> try_;  // invalid while it waits for the next try
  absl::Duration next_try_;
  bool waiting_ = false;  // for space
  std::string full_;      // what the full disk said
};

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_CHECKPOINT_WRITER_H_
