// Which heads have been silent for too long, and what they need to begin again.
#ifndef LORSA_TRAINER_TRAIN_DEAD_HEADS_H_
#define LORSA_TRAINER_TRAIN_DEAD_HEADS_H_

#include <ATen/core/Tensor.h>

#include "trainer/config/train_config.h"
#include "trainer/train/training_state.h"

namespace lorsa::trainer {

// [H] bool: not active at a target in the last config.dead_after_tokens() tokens (positions
// consumed, masked ones included).
at::Tensor DeadHeads(const TrainConfig& config, const TrainingState& state);

// What a head starts with.
struct HeadRows {
  at::Tensor heads;  // [n] int64, without repetition
  at::Tensor w_v;    // [n, d]
  at::Tensor b_v;    // [n]
  at::Tensor w_o;    // [n, d]
};

// Puts the rows in their heads' place, in the averaged weights too. The first moments of these
// heads become 0; the second moments become the mean over the heads that `live` [H] bool names, so
// that the bias correction, long at 1, does not make the first updates several times too large.
// Counters restart.
void ReplaceHeads(const HeadRows& rows, const at::Tensor& live, TrainingState& state);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_DEAD_HEADS_H_
