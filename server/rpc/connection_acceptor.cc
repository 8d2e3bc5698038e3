#include "server/rpc/connection_acceptor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <utility>

#include "base/file_system.h"
#include "base/status_macros.h"
#include "server/rpc/listening_sockets.h"

namespace lorsa::server {
namespace {

// Descriptors that connections leave for files, children and the rest: one in four.
constexpr rlim_t kReservedShare = 4;
// However many descriptors there are: connections take memory too.
constexpr rlim_t kMaxDescriptor = 20'000;
constexpr auto kFullFor = std::chrono::seconds(5);
constexpr int kRetryMs = 100;       // after accept(2) found nothing left
constexpr int kAcceptsAtOnce = 64;  // of one listener; then the others and the end have their turn

// A descriptor of this number or above is one too many.
int DescriptorBound() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return static_cast<int>(kMaxDescriptor);
  return static_cast<int>(
      std::min(limit.rlim_cur - limit.rlim_cur / kReservedShare, kMaxDescriptor));
}

int64_t SteadyMs(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> ConnectionAcceptor::Listen(
    const std::string& host, int port) {
  LORSA_ASSIGN_OR_RETURN(const Addresses addresses, ResolveHost(host));
  LORSA_ASSIGN_OR_RETURN(auto listeners, ListenOnEach(addresses.get(), host, port));
  LORSA_ASSIGN_OR_RETURN(port, PortOf(listeners.front().get()));
  Descriptor stop(::eventfd(0, EFD_CLOEXEC));
  if (stop.get() < 0) return ErrnoStatus(errno, "create", "an event");
  return std::unique_ptr<ConnectionAcceptor>(
      new ConnectionAcceptor(std::move(listeners), std::move(stop), port));
}

ConnectionAcceptor::ConnectionAcceptor(std::vector<Descriptor> listeners, Descriptor stop, int port)
    : listeners_(std::move(listeners)), stop_(std::move(stop)), port_(port) {}

ConnectionAcceptor::~ConnectionAcceptor() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  static_cast<void>(::write(stop_.get(), &one, sizeof(one)));
  thread_.join();
}

void ConnectionAcceptor::Serve(grpc::ServerBuilder& builder,
                               std::shared_ptr<grpc::ServerCredentials> credentials) {
  server_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      std::move(credentials));
}

void ConnectionAcceptor::Start() {
  thread_ = std::thread([this] { Run(); });
}

bool ConnectionAcceptor::IsFull() const {
  return SteadyMs(std::chrono::steady_clock::now()) < full_until_ms_;
}

void ConnectionAcceptor::NoteFull() {
  full_until_ms_ = SteadyMs(std::chrono::steady_clock::now() + kFullFor);
}

void ConnectionAcceptor::Run() {
  std::vector<pollfd> wanted = {{.fd = stop_.get(), .events = POLLIN, .revents = 0}};
  for (const Descriptor& listener : listeners_) {
    wanted.push_back({.fd = listener.get(), .events = POLLIN, .revents = 0});
  }
  bool pause = false;
  while (true) {
    // During a pause only the end is waited for: who knocks waits in the system's queue.
    const int ready = ::poll(wanted.data(), pause ? 1 : wanted.size(), pause ? kRetryMs : -1);
    if (wanted[0].revents != 0) return;
    pause = false;
    if (ready < 0) continue;  // EINTR
    for (const Descriptor& listener : listeners_) pause |= !AcceptFrom(listener.get());
  }
}

bool ConnectionAcceptor::AcceptFrom(int listener) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    Descriptor connection(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (connection.get() >= DescriptorBound()) {
      NoteFull();  // and closes it
      continue;
    }
    if (connection.get() >= 0) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
      parameters.listener_fd = listener;
      parameters.fd = connection.Release();
      server_->HandleNewConnection(&parameters);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
    if (errno == EINTR || errno == ECONNABORTED) continue;
    NoteFull();
    return false;
  }
  return true;  // The next poll returns at once.
}

}  // namespace lorsa::server
