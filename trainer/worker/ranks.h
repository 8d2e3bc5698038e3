// The ranks of one run as the worker's processes: what rank 0 tells the others, and what they do.
#ifndef LORSA_TRAINER_WORKER_RANKS_H_
#define LORSA_TRAINER_WORKER_RANKS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lorsa/v1/activation_service.pb.h"
#include "lorsa/v1/training_spec.pb.h"
#include "trainer/parallel/communicator.h"
#include "trainer/train/training_run.h"

namespace lorsa::worker {

// Rank 0's side. Until a run begins the other ranks wait to hear what it is about.
class LeadingRank {
 public:
  // `communicator`, null where there is one rank only, outlives this.
  explicit LeadingRank(trainer::Communicator* communicator) : communicator_(communicator) {}
  // Lets the other ranks go if no run began.
  ~LeadingRank();
  LeadingRank(const LeadingRank&) = delete;
  LeadingRank& operator=(const LeadingRank&) = delete;

  int ranks() const { return communicator_ == nullptr ? 1 : communicator_->size(); }

  // What makes a run of this specification, resolved, share its steps with the other ranks; for
  // one run, and outlived by this. INVALID_ARGUMENT if it asks for another number of ranks.
  absl::StatusOr<trainer::KernelDecorator> Decorator(const v1::TrainingSpec& spec,
                                                     const v1::ActivationSet& set);

 private:
  trainer::Communicator* const communicator_;
  bool begun_ = false;
};

// Another rank's side: all that this process does. Ends every rank (Communicator::Abort) if it
// cannot go on.
void FollowRankZero(trainer::Communicator& communicator);

}  // namespace lorsa::worker

#endif  // LORSA_TRAINER_WORKER_RANKS_H_
