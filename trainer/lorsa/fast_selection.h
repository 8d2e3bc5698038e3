// Exact selection of the K heads of one token.
#ifndef LORSA_TRAINER_LORSA_FAST_SELECTION_H_
#define LORSA_TRAINER_LORSA_FAST_SELECTION_H_

#include <cstdint>
#include <vector>

#include "trainer/config/lorsa_config.h"
#include "trainer/kernels/loops.h"

namespace lorsa::trainer {

// Memory for one selection, [n + 16] each, n the heads to choose from.
struct SelectionScratch {
  int32_t* keys;
  int32_t* heads;
  int32_t* ranked;
};

// Selects for one token after another; the threshold of the last is a first guess for the next,
// which changes how long it takes and not what comes out. One thread.
class Selector {
 public:
  // `norms` [H] = ‖W_O[i]‖. `only` restricts the choice to some heads, ascending, and then scores
  // of either sign may win (AuxLoss); null for the K heads of the configuration's selection.
  Selector(const LorsaConfig& config, const kernels::PlainLoops& loops, const float* norms,
           int64_t top_k, const std::vector<int32_t>* only, SelectionScratch scratch);

  // Writes the numbers of the kept heads, ascending, at most K, and returns how many. A NaN among
  // `z` [H] is kept, so that it shows in the loss.
  int64_t Select(const float* z, int32_t* heads);

 private:
  int64_t Collect(const float* z, int32_t above);
  int64_t CollectAmong(const float* z, int32_t above);

  const kernels::PlainLoops& loops_;
  const float* norms_;  // null where the score is z itself
  const bool absolute_;
  const int64_t n_ov_heads_, top_k_;
  const std::vector<int32_t>* only_;
  const int32_t lowest_;  // scores have keys above this
  int32_t guess_;
  SelectionScratch scratch_;
};

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_FAST_SELECTION_H_
