// How the processes that share the steps of one run talk to each other.
#ifndef LORSA_TRAINER_PARALLEL_COMMUNICATOR_H_
#define LORSA_TRAINER_PARALLEL_COMMUNICATOR_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace lorsa::trainer {

// One process's end. Messages between two ranks arrive whole and in order; any size, zero too. A
// call returns when its own buffer may be used again. What a call cannot do, it does not report:
// the group is then broken, and this process ends with a clear word (see Abort). One thread.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;  // 0 to size() - 1
  virtual int size() const = 0;

  // The bytes of rank 0 reach the others. Every rank calls it, with the same size.
  virtual void Broadcast(absl::Span<char> bytes) = 0;
  virtual void Send(int to, absl::Span<const char> bytes) = 0;
  // The next message from `from`, which has the size of `bytes`. Waits without taking the
  // processor from others.
  virtual void Receive(int from, absl::Span<char> bytes) = 0;

  // Ends every process of the group, with `message` as the last word.
  [[noreturn]] virtual void Abort(absl::string_view message) = 0;
};

// A message whose size the receiver does not know.
void SendText(Communicator& communicator, int to, absl::string_view text);
std::string ReceiveText(Communicator& communicator, int from);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_PARALLEL_COMMUNICATOR_H_
