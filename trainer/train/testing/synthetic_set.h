// A small activation set in memory, made by a small attention layer of its own.
#ifndef LORSA_TRAINER_TRAIN_TESTING_SYNTHETIC_SET_H_
#define LORSA_TRAINER_TRAIN_TESTING_SYNTHETIC_SET_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "activation_store/activation_set.h"
#include "activation_store/manifest.h"
#include "trainer/config/train_config.h"
#include "trainer/lorsa/tensor_file.h"

namespace lorsa::trainer {

struct SyntheticSet {
  store::Manifest manifest;
  std::vector<store::Sequence> sequences;
  NamedTensors attention;  // contents of attention.safetensors
};

// 2 heads of width 4 with one KV head and rope, d_model 8, context 6, fp32; position 0 of each
// sequence is masked. `sequences` of them, of which 128 are held out.
SyntheticSet MakeSyntheticSet(int64_t sequences);

// Gives the target at position 3 of a sequence 47 times the mean norm of all.
void MakeOutlier(SyntheticSet& set, int64_t sequence);

// A run over it: 16 OV heads, 4 QK heads, K 3, 4 sequences a step, 20 steps, an evaluation each 10
// and a checkpoint each 5 steps.
TrainConfig SyntheticConfig(const SyntheticSet& set);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_TESTING_SYNTHETIC_SET_H_
