#include "trainer/parallel/communicator.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trainer/parallel/tensor_messages.h"
#include "trainer/parallel/testing/communicator_check.h"
#include "trainer/parallel/testing/thread_ranks.h"

namespace lorsa::trainer {
namespace {

TEST(ThreadRanksTest, DoWhatEveryCommunicatorDoes) {
  for (const int ranks : {2, 3}) EXPECT_FALSE(RunThreadRanks(ranks, CheckCommunicator).has_value());
}

TEST(ThreadRanksTest, AnAbortEndsThoseThatWait) {
  const auto aborted = RunThreadRanks(3, [](Communicator& communicator) {
    char byte = 0;
    if (communicator.rank() == 2) communicator.Abort("enough");
    communicator.Receive(2, {&byte, 1});
    ADD_FAILURE();
  });
  EXPECT_EQ(aborted, "enough");
}

TEST(TensorMessagesTest, ATensorArrivesAsItWas) {
  const std::vector<at::Tensor> tensors = {at::arange(6, at::kFloat).view({2, 3}),
                                           at::arange(3, at::kLong),
                                           at::zeros({0, 4, 5}),
                                           at::tensor({1, 0}).to(at::kBool),
                                           at::ones({2, 2}, at::kBFloat16),
                                           at::scalar_tensor(3),
                                           at::arange(12, at::kFloat).view({3, 4}).t(),
                                           at::Tensor()};
  RunThreadRanks(2, [&](Communicator& communicator) {
    at::Tensor received;
    for (const at::Tensor& tensor : tensors) {
      if (communicator.rank() == 0) {
        SendTensor(communicator, 1, tensor);
        continue;
      }
      ReceiveTensor(communicator, 0, received);
      ASSERT_EQ(received.defined(), tensor.defined());
      if (!tensor.defined()) continue;
      EXPECT_EQ(received.scalar_type(), tensor.scalar_type());
      EXPECT_TRUE(received.equal(tensor));
    }
  });
}

// What was computed from a tensor before may be kept by its version.
TEST(TensorMessagesTest, MemoryThatFitsIsUsedAgainAndIsNewToThoseWhoCache) {
  RunThreadRanks(2, [&](Communicator& communicator) {
    if (communicator.rank() == 0) {
      SendTensor(communicator, 1, at::ones({4}));
      SendTensor(communicator, 1, at::zeros({4}));
      return;
    }
    at::Tensor received;
    ReceiveTensor(communicator, 0, received);
    const at::Tensor first = received;
    const auto version = first._version();
    ReceiveTensor(communicator, 0, received);
    EXPECT_EQ(first.const_data_ptr(), received.const_data_ptr());
    EXPECT_NE(first._version(), version);
  });
}

TEST(ChecksumTest, SeesEveryBitOfEveryParameter) {
  const LorsaConfig config{.d_model = 2, .n_ov_heads = 4, .n_qk_heads = 2, .d_qk = 2, .top_k = 1};
  const LorsaParameters parameters = ZeroParameters(config, at::kCPU);
  const uint64_t before = ChecksumOf(config, parameters);
  EXPECT_EQ(ChecksumOf(config, ZeroParameters(config, at::kCPU)), before);
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    const at::Tensor last = (parameters.*spec.member).flatten().slice(0, -1);
    last.fill_(1e-45);  // the smallest number there is: one bit
    EXPECT_NE(ChecksumOf(config, parameters), before) << spec.name;
    last.fill_(0);
  }
}

}  // namespace
}  // namespace lorsa::trainer
