// Causal attention of the fast path, one task per sequence and QK head, without ever holding a
// pattern larger than one block of queries; the backward pass computes it again from q, k and the
// stored log-sum-exp.
#ifndef LORSA_TRAINER_LORSA_FAST_ATTENTION_H_
#define LORSA_TRAINER_LORSA_FAST_ATTENTION_H_

#include <vector>

#include "trainer/lorsa/fast_workspace.h"
#include "trainer/lorsa/lorsa_parameters.h"

namespace lorsa::trainer {

// z [T, H] of the first queries[b] tokens of each sequence b; the others are left as they are.
template <typename T>
void AttendForward(const StepSizes& sizes, const std::vector<int64_t>& queries, Workspace<T>& work);

// From the gradients of the kept z to those of q and k (before norm and rope), v, and what is
// summed over tokens: biases, norm gains.
template <typename T>
void AttendBackward(const StepSizes& sizes, const LorsaParameters& parameters, Workspace<T>& work);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_FAST_ATTENTION_H_
