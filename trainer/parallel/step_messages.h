// What ranks tell each other about a step. Tasks go from rank 0 to each other rank, answers back: a
// failure's text, empty if there was none, then the result.
#ifndef LORSA_TRAINER_PARALLEL_STEP_MESSAGES_H_
#define LORSA_TRAINER_PARALLEL_STEP_MESSAGES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/lorsa/lorsa_kernel.h"
#include "trainer/parallel/communicator.h"

namespace lorsa::trainer {

enum class TaskKind : int64_t {
  kEnd,      // nothing follows
  kStep,     // ForwardBackward; the options follow
  kForward,  // Forward
};

// First come the weights, if they are not those of the task before: see BroadcastParameters; then
// the options of a step, then the rank's share of the batch.
struct Task {
  TaskKind kind = TaskKind::kEnd;
  uint64_t weights_checksum = 0;
  int64_t weights_follow = 0;
};

void SendStepOptions(Communicator& communicator, int to, const StepOptions& options);
StepOptions ReceiveStepOptions(Communicator& communicator, int from);

// A result without targets is zero and has no tensors.
void SendStepResult(Communicator& communicator, int to, const LorsaConfig& config,
                    const StepResult& result);
// Into the memory of the tensors in `into`, where they fit.
void ReceiveStepResult(Communicator& communicator, int from, const LorsaConfig& config,
                       StepResult& into);

// Adds what another part of the step came to.
void AddStepResult(const LorsaConfig& config, const StepResult& part, StepResult& sum);
// Of a part without targets, in full.
StepResult ZeroStepResult(const LorsaConfig& config);

void SendForwardResult(Communicator& communicator, int to, const ForwardResult& result);
ForwardResult ReceiveForwardResult(Communicator& communicator, int from);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_PARALLEL_STEP_MESSAGES_H_
