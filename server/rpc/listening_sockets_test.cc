#include "server/rpc/listening_sockets.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <array>

namespace lorsa::server {
namespace {

constexpr int kNoFamily = 4242;  // that any machine has

// As a name resolves that has two addresses; null stands for one that this machine lacks.
class TwoAddresses {
 public:
  TwoAddresses(const char* first, const char* second) {
    const char* const addresses[] = {first, second};
    for (int i : {0, 1}) {
      list_[i].ai_family = addresses[i] == nullptr ? kNoFamily : AF_INET;
      sockets_[i].sin_family = AF_INET;
      if (addresses[i] != nullptr) {
        EXPECT_EQ(::inet_pton(AF_INET, addresses[i], &sockets_[i].sin_addr), 1);
      }
      list_[i].ai_addr = reinterpret_cast<sockaddr*>(&sockets_[i]);
      list_[i].ai_addrlen = sizeof(sockaddr_in);
    }
    list_[0].ai_next = &list_[1];
  }
  const addrinfo* get() const { return list_.data(); }

 private:
  std::array<sockaddr_in, 2> sockets_{};
  std::array<addrinfo, 2> list_{};
};

TEST(ListenOnEach, TakesOnePortForAll) {
  const auto listeners = ListenOnEach(TwoAddresses("127.0.0.1", "127.0.0.2").get(), "host", 0);
  ASSERT_TRUE(listeners.ok()) << listeners.status();
  ASSERT_EQ(listeners->size(), 2u);
  EXPECT_EQ(PortOf((*listeners)[0].get()).value(), PortOf((*listeners)[1].get()).value());
}

// It listened on the other address alone, and clients reached the other program.
TEST(ListenOnEach, RefusesAPortThatIsInUseOnOne) {
  const auto other = ListenOnEach(TwoAddresses("127.0.0.2", nullptr).get(), "other", 0);
  ASSERT_TRUE(other.ok()) << other.status();
  const int port = PortOf(other->front().get()).value();
  const auto refused = ListenOnEach(TwoAddresses("127.0.0.1", "127.0.0.2").get(), "host", port);
  EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
}

TEST(ListenOnEach, LeavesOutWhatTheMachineLacks) {
  const auto listeners = ListenOnEach(TwoAddresses(nullptr, "127.0.0.1").get(), "host", 0);
  ASSERT_TRUE(listeners.ok()) << listeners.status();
  EXPECT_EQ(listeners->size(), 1u);
  const auto none = ListenOnEach(TwoAddresses(nullptr, nullptr).get(), "host", 0);
  EXPECT_TRUE(absl::IsUnavailable(none.status())) << none.status();
}

}  // namespace
}  // namespace lorsa::server
