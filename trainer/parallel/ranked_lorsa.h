// Data parallel training: the sequences of each step are shared among ranks, of which each has a
// kernel of its own. Weights, optimiser and everything that lasts live on rank 0 alone.
//
// One task:
//   1. rank 0 sends each other rank the task, with the checksum of its weights
//   2. if they changed since the last task, rank 0 broadcasts its weights
//   3. rank 0 sends each its share of the sequences
//   4. each rank, rank 0 too, computes over its share with these weights, after it has found that
//      their checksum is rank 0's
//   5. rank 0 asks for their results in the order of ranks and puts them together in that order, so
//      that a run repeats bit for bit
#ifndef LORSA_TRAINER_PARALLEL_RANKED_LORSA_H_
#define LORSA_TRAINER_PARALLEL_RANKED_LORSA_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/lorsa/lorsa_kernel.h"
#include "trainer/parallel/communicator.h"
#include "trainer/parallel/step_messages.h"

namespace lorsa::trainer {

// Rank 0's kernel: one whose results are those of its own part and of the other ranks', which run
// ServeRanks. Their sum differs from what `local` gives for the whole batch by rounding only. A
// failure of another rank's kernel is thrown here; parameters that another rank does not have as
// they are here end all ranks (Communicator::Abort). On the CPU.
class RankedLorsa final : public LorsaKernel {
 public:
  // `communicator` outlives this.
  RankedLorsa(Communicator& communicator, std::unique_ptr<LorsaKernel> local);
  // Lets the other ranks end.
  ~RankedLorsa() override;

  const LorsaConfig& config() const override { return local_->config(); }
  StepResult ForwardBackward(const LorsaParameters& parameters, const Batch& batch,
                             const StepOptions& options) override;
  ForwardResult Forward(const LorsaParameters& parameters, const at::Tensor& x) override;
  // By rank 0 alone.
  Intermediates Inspect(const LorsaParameters& parameters, const at::Tensor& x) override;

 private:
  void Begin(TaskKind kind, const LorsaParameters& parameters, const StepOptions* options);

  Communicator& communicator_;
  const std::unique_ptr<LorsaKernel> local_;
  std::optional<uint64_t> weights_checksum_;  // of what the other ranks have
  StepResult received_;                       // memory kept from one step to the next
};

// What another rank does: computes with `kernel` until rank 0 lets it end.
void ServeRanks(Communicator& communicator, LorsaKernel& kernel);

// Sequences [begin, end) of `count`: those of one rank. All are shared out, in the order of ranks;
// the first ranks have one more than the others where they do not divide evenly.
struct Share {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};
Share ShareOf(int64_t count, int rank, int ranks);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_PARALLEL_RANKED_LORSA_H_
