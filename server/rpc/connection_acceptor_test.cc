#include "server/rpc/connection_acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"

// While it is set, every connection that accept4(2) would return was aborted, and the next waits.
static std::atomic<bool> connections_abort_for_ever = false;

// In the place of the C library's.
extern "C" int accept4(int listener, sockaddr* address, socklen_t* size, int flags) {
  if (connections_abort_for_ever) {
    errno = ECONNABORTED;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_accept4, listener, address, size, flags));
}

namespace lorsa::server {
namespace {

// A gRPC server without services, to which connections can be made.
class ConnectionAcceptorTest : public ::testing::Test {
 protected:
  ConnectionAcceptorTest() {
    acceptor_ = ConnectionAcceptor::Listen("127.0.0.1", 0).value();
    grpc::ServerBuilder builder;
    acceptor_->Serve(builder, grpc::InsecureServerCredentials());
    builder.RegisterCallbackGenericService(&no_methods_);
    server_ = builder.BuildAndStart();
    acceptor_->Start();
  }
  ~ConnectionAcceptorTest() override {
    acceptor_.reset();
    server_->Shutdown();
  }

  bool CanConnect(std::chrono::seconds patience = std::chrono::seconds(30)) const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
    const auto channel = grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", acceptor_->port()),
                                                   grpc::InsecureChannelCredentials(), arguments);
    return channel->WaitForConnected(std::chrono::system_clock::now() + patience);
  }

  // Whether the server greets it rather than to close it.
  static bool IsLetIn(const Descriptor& connection) {
    char byte = 0;
    return ::recv(connection.get(), &byte, 1, 0) == 1;
  }
  // A connection that says nothing.
  Descriptor Connect() const {
    Descriptor socket = Socket();
    EXPECT_TRUE(Connect(socket));
    return socket;
  }
  static Descriptor Socket() {
    return Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  bool Connect(const Descriptor& socket) const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(acceptor_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }

  grpc::CallbackGenericService no_methods_;
  std::unique_ptr<ConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(ConnectionAcceptorTest, ConnectionsReachTheServer) {
  EXPECT_TRUE(CanConnect());
  EXPECT_FALSE(acceptor_->IsFull());
}

TEST_F(ConnectionAcceptorTest, APortInUseIsAnError) {
  const auto second = ConnectionAcceptor::Listen("127.0.0.1", acceptor_->port()).status();
  EXPECT_TRUE(absl::IsUnavailable(second)) << second;
}

// gRPC's listener accepts nothing more once accept(2) has failed for want of a descriptor.
TEST_F(ConnectionAcceptorTest, ItTurnsConnectionsAwayBeforeDescriptorsRunOutAndRecovers) {
  ASSERT_TRUE(CanConnect()) << "so that what gRPC opens once is open";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{.rlim_cur = 100, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  {
    // Each takes a descriptor here and one in the server, which is this process.
    std::vector<Descriptor> connections;
    do {
      connections.push_back(Connect());
    } while (IsLetIn(connections.back()) && connections.size() < 100);
    EXPECT_TRUE(acceptor_->IsFull());
    const Descriptor file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    EXPECT_GE(file.get(), 0) << "descriptors are left for files";
  }
  EXPECT_TRUE(CanConnect());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

// Where something else takes the last descriptor.
TEST_F(ConnectionAcceptorTest, ItRecoversAfterAcceptHasFailed) {
  ASSERT_TRUE(CanConnect());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const Descriptor socket = Socket();
  const rlimit none{.rlim_cur = 3, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool connected = Connect(socket);
  for (int i = 0; i < 30'000 && !acceptor_->IsFull(); ++i) ::usleep(1000);
  const bool was_full = acceptor_->IsFull();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(connected);
  EXPECT_TRUE(was_full);
  EXPECT_TRUE(CanConnect());
}

TEST_F(ConnectionAcceptorTest, StopsWhileConnectionsKeepComing) {
  connections_abort_for_ever = true;
  const Descriptor waiting = Connect();
  auto stopped = std::async(std::launch::async, [this] { acceptor_.reset(); });
  EXPECT_EQ(stopped.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  connections_abort_for_ever = false;
}

}  // namespace
}  // namespace lorsa::server
