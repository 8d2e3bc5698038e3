#include "trainer/parallel/testing/communicator_check.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lorsa::trainer {
namespace {

// Sizes on both sides of what MPI sends eagerly.
constexpr size_t kSizes[] = {0, 1, 4096, 3 << 20};

std::string Pattern(size_t size, int seed) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + seed);
  return bytes;
}

std::string ReceiveBytes(Communicator& communicator, int from, size_t size) {
  std::string bytes(size, '\0');
  communicator.Receive(from, {bytes.data(), size});
  return bytes;
}

void CheckBroadcast(Communicator& communicator) {
  for (const size_t size : kSizes) {
    std::string bytes = Pattern(communicator.rank() == 0 ? size : 0, 1);
    bytes.resize(size);
    communicator.Broadcast({bytes.data(), size});
    EXPECT_TRUE(bytes == Pattern(size, 1)) << size;
  }
}

// Rank 0 hears the ranks in turn, whoever is ready first; each one's messages come in order.
void CheckMessages(Communicator& communicator) {
  if (communicator.rank() != 0) {
    for (const size_t size : kSizes) {
      const std::string bytes = Pattern(size, communicator.rank());
      communicator.Send(0, {bytes.data(), size});
    }
    return;
  }
  for (int rank = 1; rank < communicator.size(); ++rank) {
    for (const size_t size : kSizes) {
      EXPECT_TRUE(ReceiveBytes(communicator, rank, size) == Pattern(size, rank)) << rank;
    }
  }
}

void CheckText(Communicator& communicator) {
  for (const std::string& text : {std::string(), std::string("word"), Pattern(100'000, 3)}) {
    if (communicator.rank() == 0) SendText(communicator, 1, text);
    if (communicator.rank() == 1) {
      EXPECT_TRUE(ReceiveText(communicator, 0) == text);
    }
  }
}

}  // namespace

void CheckCommunicator(Communicator& communicator) {
  ASSERT_GE(communicator.size(), 2);
  ASSERT_LT(communicator.rank(), communicator.size());
  CheckBroadcast(communicator);
  CheckMessages(communicator);
  CheckText(communicator);
}

}  // namespace lorsa::trainer
