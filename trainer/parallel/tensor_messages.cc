#include "trainer/parallel/tensor_messages.h"

#include <ATen/ATen.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <memory>

namespace lorsa::trainer {
namespace {

constexpr int kMaxDimensions = 4;

struct TensorHeader {
  int64_t defined = 0;
  int64_t dtype = 0;  // at::ScalarType
  int64_t dimensions = 0;
  std::array<int64_t, kMaxDimensions> sizes = {};
};

TensorHeader HeaderOf(const at::Tensor& tensor) {
  TensorHeader header;
  if (!tensor.defined()) return header;
  TORCH_CHECK(tensor.dim() <= kMaxDimensions, "A tensor of ", tensor.dim(),
              " dimensions cannot be sent to another rank.");
  header.defined = 1;
  header.dtype = static_cast<int64_t>(tensor.scalar_type());
  header.dimensions = tensor.dim();
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), header.sizes.begin());
  return header;
}

// The memory of a contiguous tensor on the CPU.
absl::Span<char> BytesOf(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_contiguous() && tensor.device().is_cpu(),
              "Ranks exchange contiguous tensors on the CPU.");
  return {static_cast<char*>(const_cast<void*>(tensor.const_data_ptr())), tensor.nbytes()};
}

}  // namespace

void SendTensor(Communicator& communicator, int to, const at::Tensor& tensor) {
  SendStruct(communicator, to, HeaderOf(tensor));
  if (tensor.defined()) communicator.Send(to, BytesOf(tensor.contiguous()));
}

void ReceiveTensor(Communicator& communicator, int from, at::Tensor& into) {
  const auto header = ReceiveStruct<TensorHeader>(communicator, from);
  if (header.defined == 0) {
    into = at::Tensor();
    return;
  }
  const auto dtype = static_cast<at::ScalarType>(header.dtype);
  const at::IntArrayRef sizes(header.sizes.data(), header.dimensions);
  if (!into.defined() || into.scalar_type() != dtype || into.sizes() != sizes) {
    into = at::empty(sizes, dtype);
  }
  communicator.Receive(from, BytesOf(into));
  into.unsafeGetTensorImpl()->bump_version();
}

void BroadcastParameters(Communicator& communicator, const LorsaConfig& config,
                         const LorsaParameters& parameters) {
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    const at::Tensor& tensor = parameters.*spec.member;
    communicator.Broadcast(BytesOf(tensor));
    if (communicator.rank() != 0) tensor.unsafeGetTensorImpl()->bump_version();
  }
}

uint64_t ChecksumOf(const LorsaConfig& config, const LorsaParameters& parameters) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       XXH3_freeState);
  XXH3_64bits_reset(state.get());
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    const absl::Span<char> bytes = BytesOf(parameters.*spec.member);
    XXH3_64bits_update(state.get(), bytes.data(), bytes.size());
  }
  return XXH3_64bits_digest(state.get());
}

}  // namespace lorsa::trainer
