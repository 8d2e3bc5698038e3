// What the stages of the fast path share: its configuration, loops and memory.
#ifndef LORSA_TRAINER_LORSA_FAST_WORKSPACE_H_
#define LORSA_TRAINER_LORSA_FAST_WORKSPACE_H_

#include "trainer/config/lorsa_config.h"
#include "trainer/kernels/panels.h"
#include "trainer/lorsa/fast_buffers.h"
#include "trainer/lorsa/rope.h"

namespace lorsa::trainer {

template <typename T>
struct Workspace : StepBuffers<T> {
  Workspace(const LorsaConfig& lorsa_config, kernels::Level level)
      : config(lorsa_config), loops(kernels::LoopSetFor<T>(level)) {}

  const LorsaConfig& config;
  kernels::LoopSet<T> loops;
  RopeTables rope;  // [S, rotary_dim] if there is rope
};

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_FAST_WORKSPACE_H_
