#include "trainer/parallel/communicator.h"

#include <cstdint>

namespace lorsa::trainer {

void SendText(Communicator& communicator, int to, absl::string_view text) {
  const uint64_t size = text.size();
  communicator.Send(to, {reinterpret_cast<const char*>(&size), sizeof(size)});
  communicator.Send(to, {text.data(), text.size()});
}

std::string ReceiveText(Communicator& communicator, int from) {
  uint64_t size = 0;
  communicator.Receive(from, {reinterpret_cast<char*>(&size), sizeof(size)});
  std::string text(size, '\0');
  communicator.Receive(from, {text.data(), text.size()});
  return text;
}

}  // namespace lorsa::trainer
