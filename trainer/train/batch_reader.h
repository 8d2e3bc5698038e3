// Sequences from a source, made into batches of tensors.
#ifndef LORSA_TRAINER_TRAIN_BATCH_READER_H_
#define LORSA_TRAINER_TRAIN_BATCH_READER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/config/train_config.h"
#include "trainer/lorsa/lorsa_kernel.h"
#include "trainer/train/run_host.h"

namespace lorsa::trainer {

struct LoadedBatch {
  Batch batch;                     // x and y scaled; undefined tensors if there is no sequence
  std::vector<int64_t> sequences;  // indices in the set
  int64_t targets = 0;             // unmasked; may be 0
  double target_variance = 0;      // Σ‖y−ȳ‖² over them, ȳ their mean; scaled

  bool empty() const { return sequences.empty(); }
};

// "sequences 3, 17, 4 of the activation set", for messages.
std::string SequencesText(const std::vector<int64_t>& sequences);

// One thread. `config` outlives the reader. Uses no threads of libtorch's, so that it can run
// beside a computation.
class BatchReader {
 public:
  BatchReader(const TrainConfig& config, std::unique_ptr<SequenceSource> source, at::Device device)
      : config_(config), source_(std::move(source)), device_(device) {}

  // The next `count` sequences; fewer, or none, where the source ends. DATA_LOSS naming the
  // sequence if its sizes are not those of the set or an activation is NaN or Inf; else the
  // source's error. Throws c10::Error.
  absl::StatusOr<LoadedBatch> Next(int64_t count);

 private:
  absl::Status Unpack(const store::Sequence& sequence, int64_t row, Batch& out,
                      int64_t& targets) const;
  double TargetVariance(const Batch& batch, int64_t targets) const;

  const TrainConfig& config_;
  std::unique_ptr<SequenceSource> source_;
  const at::Device device_;
  store::Sequence sequence_;  // memory kept from one sequence to the next
};

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_BATCH_READER_H_
