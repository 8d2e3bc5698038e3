// Selection, sparse decode and loss of the fast path, and what follows from them for W_O and b_D.
#ifndef LORSA_TRAINER_LORSA_FAST_DECODE_H_
#define LORSA_TRAINER_LORSA_FAST_DECODE_H_

#include "trainer/lorsa/fast_workspace.h"
#include "trainer/lorsa/lorsa_kernel.h"

namespace lorsa::trainer {

// Keeps the heads of every token and decodes them: what Forward returns.
template <typename T>
ForwardResult Decode(const StepSizes& sizes, const LorsaParameters& parameters, Workspace<T>& work);

// Keeps the heads of the unmasked tokens, with the gradient of each kept z; fills in the sums over
// targets of `result`, and b_D's gradient.
template <typename T>
void DecodeAndCompare(const StepSizes& sizes, const LorsaParameters& parameters, const Batch& batch,
                      const StepOptions& options, Workspace<T>& work, StepResult& result);

// W_O's gradient and the firing counts; after DecodeAndCompare.
template <typename T>
void DecoderGradients(const StepSizes& sizes, Workspace<T>& work, StepResult& result);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_FAST_DECODE_H_
