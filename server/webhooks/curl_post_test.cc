#include <arpa/inet.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "server/webhooks/http_post.h"

namespace {

constexpr char kSlowName[] = "slow.example.org";
constexpr absl::Duration kSlow = absl::Seconds(8);

}  // namespace

// In place of the C library's, for libcurl too: one name takes long, as with a server of names that
// does not answer.
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints,
                           addrinfo** result) {
  if (name != nullptr && std::string(name) == kSlowName) {
    absl::SleepFor(kSlow);
    return EAI_FAIL;
  }
  static const auto real =
      reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(name, service, hints, result);
}

namespace lorsa::server {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(1);

// Answers one request with `answer`, then closes the connection, or leaves it open.
class Receiver {
 public:
  Receiver(std::string answer, bool closes)
      : answer_(std::move(answer)), closes_(closes), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{.sin_family = AF_INET};
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ::ntohs(address.sin_port);
    thread_ = std::thread([this] { Answer(); });
  }
  ~Receiver() {
    done_.Notify();
    thread_.join();
    ::close(listener_);
  }

  std::string url() const { return absl::StrCat("http://127.0.0.1:", port_, "/hook"); }

 private:
  void Answer() {
    const int connection = ::accept(listener_, nullptr, nullptr);
    std::string request;
    char byte;
    while (request.find("\r\n\r\nbody") == std::string::npos &&
           ::recv(connection, &byte, 1, 0) == 1) {
      request += byte;
    }
    ::send(connection, answer_.data(), answer_.size(), MSG_NOSIGNAL);
    if (!closes_) done_.WaitForNotification();
    ::close(connection);
  }

  const std::string answer_;
  const bool closes_;
  const int listener_;
  int port_ = 0;
  absl::Notification done_;
  std::thread thread_;
};

absl::StatusOr<int> StatusOf(const std::string& answer, bool closes = true) {
  const Receiver receiver(answer, closes);
  return MakeCurlPost(kTimeout)->Post(receiver.url(), {}, "body");
}

TEST(CurlPostTest, TheStatusIsReturned) {
  EXPECT_EQ(StatusOf("HTTP/1.1 204 No Content\r\n\r\n").value(), 204);
  EXPECT_EQ(StatusOf("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n").value(), 503);
}

// A notice was sent again to a receiver that had taken it and then closed the connection early.
TEST(CurlPostTest, AStatusStandsWhateverBecomesOfTheBody) {
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
  EXPECT_EQ(StatusOf(head + "cut off").value(), 200);
  EXPECT_EQ(StatusOf(head + std::string(100 << 10, 'x')).value(), 200);
  EXPECT_EQ(StatusOf(head + "never ends", /*closes=*/false).value(), 200);
}

TEST(CurlPostTest, WithoutAStatusTheReceiverIsUnavailable) {
  for (const char* answer : {"", "HTTP/1.1", "hello, this is no HTTP\r\n\r\n"}) {
    EXPECT_TRUE(absl::IsUnavailable(StatusOf(answer).status())) << answer;
  }
  EXPECT_TRUE(absl::IsUnavailable(StatusOf("", /*closes=*/false).status()));
}

TEST(CurlPostTest, CancelEndsTheCallUnderWayAndAllLaterOnes) {
  const Receiver receiver("", /*closes=*/false);
  const auto post = MakeCurlPost(absl::Minutes(5));
  std::thread canceller([&] {
    absl::SleepFor(absl::Milliseconds(100));
    post->Cancel();
  });
  EXPECT_TRUE(absl::IsCancelled(post->Post(receiver.url(), {}, "body").status()));
  canceller.join();
  EXPECT_TRUE(absl::IsCancelled(post->Post(receiver.url(), {}, "body").status()));
}

// A stop of lorsad waited for as long as the system looked for the name.
TEST(CurlPostTest, NoEndWaitsForANamesAddress) {
  const absl::Time began = absl::Now();
  const auto status = MakeCurlPost(kTimeout)->Post("http://slow.example.org/", {}, "body").status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_LT(absl::Now() - began, kSlow / 2);
}

}  // namespace
}  // namespace lorsa::server
