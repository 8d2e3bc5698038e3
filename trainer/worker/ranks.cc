#include "trainer/worker/ranks.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "lorsa/v1/worker_service.pb.h"
#include "trainer/config/config_from_spec.h"
#include "trainer/lorsa/make_lorsa_kernel.h"
#include "trainer/lorsa/torch_guard.h"
#include "trainer/parallel/ranked_lorsa.h"
#include "trainer/train/configure_libtorch.h"

namespace lorsa::worker {
namespace {

// A Welcome as the server sends it, without checkpoints; empty: there is no run.
void TellAll(trainer::Communicator& communicator, const std::string& welcome) {
  for (int rank = 1; rank < communicator.size(); ++rank) {
    trainer::SendText(communicator, rank, welcome);
  }
}

absl::Status Follow(trainer::Communicator& communicator, const std::string& text) {
  v1::Welcome welcome;
  if (!welcome.ParseFromString(text)) {
    return absl::DataLossError("what rank 0 said of the run cannot be read");
  }
  LORSA_ASSIGN_OR_RETURN(
      const trainer::TrainConfig config,
      ConfigFromSpec(welcome.resolved_spec().training(), welcome.activation_set()));
  return trainer::GuardTorch([&]() -> absl::Status {
    trainer::ConfigureLibtorch(config.threads);
    const auto kernel = trainer::MakeLorsaKernel(config.lorsa, config.precision, c10::kCPU);
    trainer::ServeRanks(communicator, *kernel);
    return absl::OkStatus();
  });
}

}  // namespace

LeadingRank::~LeadingRank() {
  if (communicator_ != nullptr && !begun_) TellAll(*communicator_, "");
}

absl::StatusOr<trainer::KernelDecorator> LeadingRank::Decorator(const v1::TrainingSpec& spec,
                                                                const v1::ActivationSet& set) {
  if (static_cast<int>(spec.ranks()) != ranks()) {
    return absl::InvalidArgumentError(
        absl::StrCat("ranks is ", spec.ranks(), ", but ", ranks(),
                     ranks() == 1 ? " process was" : " processes were",
                     " started; start lorsa-worker with mpirun -n ", spec.ranks()));
  }
  if (communicator_ == nullptr) return nullptr;
  v1::Welcome welcome;
  *welcome.mutable_resolved_spec()->mutable_training() = spec;
  *welcome.mutable_activation_set() = set;
  return [this, text = welcome.SerializeAsString()](std::unique_ptr<trainer::LorsaKernel> local) {
    TellAll(*communicator_, text);
    begun_ = true;
    return std::make_unique<trainer::RankedLorsa>(*communicator_, std::move(local));
  };
}

void FollowRankZero(trainer::Communicator& communicator) {
  const std::string text = trainer::ReceiveText(communicator, 0);
  if (text.empty()) return;
  const absl::Status status = Follow(communicator, text);
  if (!status.ok()) communicator.Abort(status.message());
}

}  // namespace lorsa::worker
