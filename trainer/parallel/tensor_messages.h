// Tensors as messages between ranks. All ranks are processes of one program on machines of one
// kind, so that numbers go as they lie in memory.
#ifndef LORSA_TRAINER_PARALLEL_TENSOR_MESSAGES_H_
#define LORSA_TRAINER_PARALLEL_TENSOR_MESSAGES_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <type_traits>

#include "trainer/config/lorsa_config.h"
#include "trainer/lorsa/lorsa_parameters.h"
#include "trainer/parallel/communicator.h"

namespace lorsa::trainer {

// Any dtype and shape, also an undefined tensor; from the CPU to the CPU. Throws c10::Error.
void SendTensor(Communicator& communicator, int to, const at::Tensor& tensor);
// Into the memory of `into` if that has the dtype and shape of what comes, else into a new tensor.
void ReceiveTensor(Communicator& communicator, int from, at::Tensor& into);

// The parameters of rank 0 reach those of the others, which have the same shapes already.
void BroadcastParameters(Communicator& communicator, const LorsaConfig& config,
                         const LorsaParameters& parameters);

// XXH3 of all parameters' bytes.
uint64_t ChecksumOf(const LorsaConfig& config, const LorsaParameters& parameters);

// A plain struct.
template <typename T>
void SendStruct(Communicator& communicator, int to, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  communicator.Send(to, {reinterpret_cast<const char*>(&value), sizeof(T)});
}
template <typename T>
T ReceiveStruct(Communicator& communicator, int from) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  communicator.Receive(from, {reinterpret_cast<char*>(&value), sizeof(T)});
  return value;
}

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_PARALLEL_TENSOR_MESSAGES_H_
