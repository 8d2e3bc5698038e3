// Checkpoints on disk (docs/checkpoint_format.md).
#ifndef LORSA_TRAINER_TRAIN_CHECKPOINT_H_
#define LORSA_TRAINER_TRAIN_CHECKPOINT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/file_system.h"
#include "trainer/config/checkpoint_config.h"
#include "trainer/train/training_state.h"

namespace lorsa::trainer {

// What bit-exactness depends on.
struct Environment {
  std::string build;            // version of this program and compiler
  std::string instruction_set;  // "AVX2", "AVX512", … as libtorch chose
  int64_t threads = 0;          // of each rank
  int64_t ranks = 1;
  std::string torch;

  bool operator==(const Environment&) const = default;
};

// That of this process, one of `ranks`, with the threads that libtorch's computations get.
Environment CurrentEnvironment(int64_t ranks);

struct Checkpoint {
  CheckpointConfig config;
  TrainingState state;
  Environment environment;
};

// What the files of a checkpoint hold.
struct CheckpointContents {
  CheckpointConfig config;
  NamedTensors weights;  // lorsa.safetensors
  NamedTensors state;    // state.safetensors
  TrainingCounts counts;
  Environment environment;
};

// Tensors are shared with `checkpoint`.
CheckpointContents ContentsOf(const Checkpoint& checkpoint);

// Written last: a folder without it is no checkpoint.
inline constexpr char kCheckpointManifestFile[] = "manifest.json";

// "step-000001000"
std::string CheckpointFolderName(int64_t step);
// The step of a folder, by the last part of its path; -1 if it has not the name of a checkpoint.
int64_t StepOfCheckpointFolder(absl::string_view path);

// Writes the checkpoint as the folder `path`, without threads of libtorch's, replacing what is
// there, and returns the sha256 of its manifest, hex. A NotFiniteError naming the tensor if one is
// not finite; else the file system's error, after which what was written is gone.
absl::StatusOr<std::string> WriteCheckpoint(FileSystem& fs, const std::string& path,
                                            const CheckpointContents& contents, absl::Time created);

// Its counts alone, without verifying anything else.
absl::StatusOr<TrainingCounts> ReadCheckpointCounts(FileSystem& fs, const std::string& path);

// What it takes to use a checkpoint's weights.
struct CheckpointWeights {
  CheckpointConfig config;
  LorsaParameters parameters;  // as published
};

// Reads these alone; a checkpoint that another program wrote need not have a state. Errors as of
// ReadCheckpoint.
absl::StatusOr<CheckpointWeights> ReadCheckpointWeights(FileSystem& fs, const std::string& path,
                                                        at::Device device);

// Reads a checkpoint to train on. DATA_LOSS, naming the file and what is wrong, if anything does
// not match its checksum or its configuration. Throws c10::Error.
absl::StatusOr<Checkpoint> ReadCheckpoint(FileSystem& fs, const std::string& path,
                                          at::Device device);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_CHECKPOINT_H_
