// What a run takes of a machine, known before it begins. Plain arithmetic: no torch, no gRPC, so
// that the server can answer with it too.
#ifndef LORSA_TRAINER_RESOURCES_RESOURCE_ESTIMATE_H_
#define LORSA_TRAINER_RESOURCES_RESOURCE_ESTIMATE_H_

#include <cstdint>
#include <string>

#include "trainer/train/train_config.h"

namespace lorsa::trainer {

// In bytes. The process itself (its code, libtorch's and gRPC's) is not counted.
struct ResourceEstimate {
  // --- Memory ---
  int64_t weights = 0;         // fp32
  int64_t average = 0;         // of the weights, if the run keeps one
  int64_t moments = 0;         // Adam's two
  int64_t gradients = 0;       // and the optimiser's copy of the largest tensor
  int64_t step = 0;            // what the kernel holds during a step
  int64_t snapshot = 0;        // the copy that a checkpoint is written from
  int64_t batches = 0;         // read ahead, raw and converted
  int64_t initialization = 0;  // the sample that the weights start from; gone before the first step
  int64_t refit = 0;           // of the decoder; after the last step
  int64_t memory() const;      // at the peak

  // --- Disk ---
  int64_t checkpoint = 0;        // one
  int64_t kept_checkpoints = 0;  // at most at a time, the one being written included
  int64_t disk() const { return kept_checkpoints * checkpoint; }
};

// `config` is valid.
ResourceEstimate EstimateResources(const TrainConfig& config);

// What the kernel of the CPU (trainer/lorsa/fast_workspace.h) holds besides weights and gradients:
// working copies of the weights, the forms of the input, and what the backward pass needs.
int64_t KernelMemoryBytes(const TrainConfig& config);

// "weights 1.2 GiB, Adam 2.4 GiB, …", largest first.
std::string MemoryText(const ResourceEstimate& estimate);

// "1.50 GiB"
std::string BytesText(int64_t bytes);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_RESOURCES_RESOURCE_ESTIMATE_H_
