// The numbers are those of ranked_lorsa.h.
#include "trainer/parallel/ranked_lorsa.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "trainer/parallel/tensor_messages.h"

namespace lorsa::trainer {
namespace {

// Rows of a tensor [B, …]; shares its memory.
at::Tensor Rows(const at::Tensor& tensor, const Share& share) {
  return tensor.narrow(0, share.begin, share.size());
}

Batch Part(const Batch& batch, const Share& share) {
  return {.x = Rows(batch.x, share), .y = Rows(batch.y, share), .mask = Rows(batch.mask, share)};
}

void SendBatch(Communicator& communicator, int to, const Batch& batch) {
  const auto& [x, y, mask] = batch;
  SendTensor(communicator, to, x);
  SendTensor(communicator, to, y);
  SendTensor(communicator, to, mask);
}

// A kernel takes no batch without targets.
StepResult ComputePart(LorsaKernel& kernel, const LorsaParameters& parameters, const Batch& part,
                       const StepOptions& options) {
  const bool has_targets = part.mask.any().item<bool>();
  return has_targets ? kernel.ForwardBackward(parameters, part, options)
                     : ZeroStepResult(kernel.config());
}

// What `body` threw, as text that GuardTorch makes the same status of; empty if nothing.
std::string FailureOf(absl::FunctionRef<void()> body) {
  try {
    body();
    return "";
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const std::exception& error) {
    return error.what();
  }
}

// Rank 0's request for an answer. One that came unasked would keep a processor busy until rank 0 is
// there to take it.
constexpr char kAsk = '?';

// Rank 0 has to hear every answer, whatever goes wrong: else the next task would meet an old one.
class Answers {
 public:
  explicit Answers(Communicator& communicator) : communicator_(communicator) {}

  void Own(absl::FunctionRef<void()> compute) {
    try {
      compute();
    } catch (...) {
      own_failure_ = std::current_exception();
    }
  }
  // Calls `take` for the answer of each rank in turn, unless it is a failure.
  void Hear(absl::FunctionRef<void(int)> take) {
    for (int rank = 1; rank < communicator_.size(); ++rank) {
      SendStruct(communicator_, rank, kAsk);
      const std::string failure = ReceiveText(communicator_, rank);
      if (failure.empty()) {
        take(rank);
      } else if (failure_.empty()) {
        failure_ = absl::StrCat("rank ", rank, ": ", failure);
      }
    }
  }
  bool failed() const { return own_failure_ != nullptr || !failure_.empty(); }
  // Throws the failure of the lowest rank.
  void ThrowFailure() const {
    if (own_failure_ != nullptr) std::rethrow_exception(own_failure_);
    TORCH_CHECK(failure_.empty(), failure_);
  }

 private:
  Communicator& communicator_;
  std::exception_ptr own_failure_;
  std::string failure_;
};

// The other ranks' side.
class Server {
 public:
  Server(Communicator& communicator, LorsaKernel& kernel)
      : communicator_(communicator),
        kernel_(kernel),
        weights_(ZeroParameters(kernel.config(), at::kCPU)) {}

  void Run() {
    while (true) {
      const auto task = ReceiveStruct<Task>(communicator_, 0);
      if (task.kind == TaskKind::kEnd) return;
      if (task.weights_follow != 0) {
        BroadcastParameters(communicator_, kernel_.config(), weights_);
      }
      if (task.kind == TaskKind::kStep) {
        Step(task);
      } else {
        Forward(task);
      }
    }
  }

 private:
  void Step(const Task& task) {
    const StepOptions options = ReceiveStepOptions(communicator_, 0);
    ReceiveTensor(communicator_, 0, batch_.x);
    ReceiveTensor(communicator_, 0, batch_.y);
    ReceiveTensor(communicator_, 0, batch_.mask);
    CheckWeights(task);
    StepResult result;
    const std::string failure =
        FailureOf([&] { result = ComputePart(kernel_, weights_, batch_, options); });
    if (BeginAnswer(failure)) SendStepResult(communicator_, 0, kernel_.config(), result);
  }

  void Forward(const Task& task) {
    ReceiveTensor(communicator_, 0, batch_.x);
    CheckWeights(task);
    ForwardResult result;
    const std::string failure = FailureOf([&] {
      if (batch_.x.size(0) > 0) result = kernel_.Forward(weights_, batch_.x);
    });
    if (BeginAnswer(failure)) SendForwardResult(communicator_, 0, result);
  }

  // Whether a result follows.
  bool BeginAnswer(const std::string& failure) {
    ReceiveStruct<char>(communicator_, 0);
    SendText(communicator_, 0, failure);
    return failure.empty();
  }

  void CheckWeights(const Task& task) {
    if (ChecksumOf(kernel_.config(), weights_) == task.weights_checksum) return;
    communicator_.Abort("the weights are not those of rank 0; memory or network may be faulty");
  }

  Communicator& communicator_;
  LorsaKernel& kernel_;
  const LorsaParameters weights_;
  Batch batch_;  // memory kept from one step to the next
};

}  // namespace

Share ShareOf(int64_t count, int rank, int ranks) {
  const int64_t each = count / ranks, rest = count % ranks;
  const int64_t begin = rank * each + std::min<int64_t>(rank, rest);
  return {.begin = begin, .end = begin + each + (rank < rest ? 1 : 0)};
}

RankedLorsa::RankedLorsa(Communicator& communicator, std::unique_ptr<LorsaKernel> local)
    : communicator_(communicator), local_(std::move(local)) {}

RankedLorsa::~RankedLorsa() {
  for (int rank = 1; rank < communicator_.size(); ++rank) {
    SendStruct(communicator_, rank, Task{.kind = TaskKind::kEnd});
  }
}

void RankedLorsa::Begin(TaskKind kind, const LorsaParameters& parameters,
                        const StepOptions* options) {
  const uint64_t checksum = ChecksumOf(config(), parameters);
  const bool changed = weights_checksum_ != checksum;
  for (int rank = 1; rank < communicator_.size(); ++rank) {  // 1
    SendStruct(communicator_, rank,
               Task{.kind = kind, .weights_checksum = checksum, .weights_follow = changed});
  }
  if (changed) BroadcastParameters(communicator_, config(), parameters);  // 2
  weights_checksum_ = checksum;
  if (options == nullptr) return;
  for (int rank = 1; rank < communicator_.size(); ++rank) {
    SendStepOptions(communicator_, rank, *options);
  }
}

StepResult RankedLorsa::ForwardBackward(const LorsaParameters& parameters, const Batch& batch,
                                        const StepOptions& options) {
  const int ranks = communicator_.size();
  const int64_t sequences = batch.x.size(0);
  Begin(TaskKind::kStep, parameters, &options);
  for (int rank = 1; rank < ranks; ++rank) {  // 3
    SendBatch(communicator_, rank, Part(batch, ShareOf(sequences, rank, ranks)));
  }
  StepResult sum;
  Answers answers(communicator_);
  answers.Own([&] {  // 4
    sum = ComputePart(*local_, parameters, Part(batch, ShareOf(sequences, 0, ranks)), options);
  });
  answers.Hear([&](int rank) {  // 5
    ReceiveStepResult(communicator_, rank, config(), received_);
    if (!answers.failed()) AddStepResult(config(), received_, sum);
  });
  answers.ThrowFailure();
  return sum;
}

ForwardResult RankedLorsa::Forward(const LorsaParameters& parameters, const at::Tensor& x) {
  const int ranks = communicator_.size();
  Begin(TaskKind::kForward, parameters, /*options=*/nullptr);
  for (int rank = 1; rank < ranks; ++rank) {  // 3
    SendTensor(communicator_, rank, Rows(x, ShareOf(x.size(0), rank, ranks)));
  }
  std::vector<at::Tensor> reconstructions, heads, values;
  const auto append = [&](const ForwardResult& part) {
    if (!part.reconstruction.defined()) return;
    reconstructions.push_back(part.reconstruction);
    heads.push_back(part.activations.heads);
    values.push_back(part.activations.values);
  };
  Answers answers(communicator_);
  answers.Own([&] {  // 4
    append(local_->Forward(parameters, Rows(x, ShareOf(x.size(0), 0, ranks))));
  });
  answers.Hear([&](int rank) { append(ReceiveForwardResult(communicator_, rank)); });  // 5
  answers.ThrowFailure();
  return {.reconstruction = at::cat(reconstructions),
          .activations = {.heads = at::cat(heads), .values = at::cat(values)}};
}

Intermediates RankedLorsa::Inspect(const LorsaParameters& parameters, const at::Tensor& x) {
  return local_->Inspect(parameters, x);
}

void ServeRanks(Communicator& communicator, LorsaKernel& kernel) {
  Server(communicator, kernel).Run();
}

}  // namespace lorsa::trainer
