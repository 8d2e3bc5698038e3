// The wall at which libtorch's exceptions stop. The trainer's classes let them pass; each entry
// point that the rest of the program calls runs its body under GuardTorch.
#ifndef LORSA_TRAINER_LORSA_TORCH_GUARD_H_
#define LORSA_TRAINER_LORSA_TORCH_GUARD_H_

#include <type_traits>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lorsa::trainer {

// The status of `body`, or of the exception that it threw: RESOURCE_EXHAUSTED when memory ran out,
// else INTERNAL with the exception's own message.
absl::Status GuardTorch(absl::FunctionRef<absl::Status()> body);

// The same for a body that returns absl::StatusOr<T>.
template <typename Body>
requires(!std::is_same_v<std::invoke_result_t<Body>, absl::Status>)
    std::invoke_result_t<Body> GuardTorch(Body&& body) {
  std::invoke_result_t<Body> result = absl::UnknownError("the body did not run");
  absl::Status status = GuardTorch([&]() -> absl::Status {
    result = body();
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return result;
}

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_TORCH_GUARD_H_
