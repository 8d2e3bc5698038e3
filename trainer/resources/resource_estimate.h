// What a run takes of a machine, known before it begins. No header of torch or gRPC.
#ifndef LORSA_TRAINER_RESOURCES_RESOURCE_ESTIMATE_H_
#define LORSA_TRAINER_RESOURCES_RESOURCE_ESTIMATE_H_

#include <cstdint>
#include <string>

#include "trainer/config/train_config.h"

namespace lorsa::trainer {

// In bytes. The ranks of a run are taken to share one machine.
struct ResourceEstimate {
  // --- Memory ---
  int64_t process = 0;         // code and data of the libraries, above all libtorch's
  int64_t weights = 0;         // fp32
  int64_t average = 0;         // of the weights, if the run keeps one
  int64_t moments = 0;         // Adam's two
  int64_t gradients = 0;       // with several ranks also another one's
  int64_t step = 0;            // what the kernel holds besides during a step
  int64_t snapshot = 0;        // the copy that a checkpoint is written from
  int64_t batches = 0;         // converted
  int64_t read_ahead = 0;      // raw sequences, of training and of an evaluation at the same time
  int64_t initialization = 0;  // the sample that the weights start from; gone before the first step
  int64_t resampling = 0;      // of dead heads, between two steps
  int64_t refit = 0;           // of the decoder; after the last step
  int64_t other_ranks = 0;     // all processes but the first
  int64_t first_rank() const;  // the first process at its peak
  int64_t memory() const { return first_rank() + other_ranks; }

  // --- Disk ---
  int64_t checkpoint = 0;        // one
  int64_t kept_checkpoints = 0;  // at most at a time, the one being written included
  int64_t disk() const { return kept_checkpoints * checkpoint; }
};

// Makes malloc give large blocks back to the system when they are freed, in this process from now
// on: glibc's own threshold grows with what is freed, and a run would keep a third of its peak for
// nothing. The estimate is of a process that called this at its start. Not thread-safe.
void ReturnFreedBlocks();

// `config` is valid.
ResourceEstimate EstimateResources(const TrainConfig& config);

// "weights 1.2 GiB, Adam 2.4 GiB, …", largest first, without what takes nothing.
std::string MemoryText(const ResourceEstimate& estimate);

// "1.50 GiB"
std::string BytesText(int64_t bytes);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_RESOURCES_RESOURCE_ESTIMATE_H_
