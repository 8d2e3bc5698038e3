#include "server/rpc/connection_acceptor.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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

#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/status_macros.h"

namespace lorsa::server {
namespace {

// Descriptors that connections leave for files, children and the rest: one in four.
constexpr rlim_t kReservedShare = 4;
// However many descriptors there are: connections take memory too.
constexpr rlim_t kMaxDescriptor = 20'000;
constexpr auto kFullFor = std::chrono::seconds(5);
constexpr int kRetryMs = 100;       // after accept(2) found nothing left
constexpr int kAcceptsAtOnce = 64;  // of one listener; then the others and the end have their turn

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

absl::StatusOr<Addresses> Resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  const std::string bare = bracketed ? host.substr(1, host.size() - 2) : host;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(bare.c_str(), nullptr, &hints, &found); error != 0) {
    return absl::UnavailableError(
        absl::StrCat("no address of ", host, ": ", ::gai_strerror(error)));
  }
  return Addresses(found, ::freeaddrinfo);
}

void SetPort(sockaddr& address, int port) {
  const in_port_t ordered = htons(static_cast<uint16_t>(port));
  if (address.sa_family == AF_INET) reinterpret_cast<sockaddr_in&>(address).sin_port = ordered;
  if (address.sa_family == AF_INET6) reinterpret_cast<sockaddr_in6&>(address).sin6_port = ordered;
}

absl::StatusOr<int> PortOf(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return ErrnoStatus(errno, "read", "the port");
  }
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

absl::StatusOr<Descriptor> ListenOn(const addrinfo& at, const std::string& host) {
  Descriptor socket(
      ::socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, at.ai_protocol));
  const int on = 1;
  // Connections inherit TCP_NODELAY.
  if (socket.get() < 0 ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
      ::bind(socket.get(), at.ai_addr, at.ai_addrlen) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return absl::UnavailableError(ErrnoStatus(errno, "listen on", host).message());
  }
  return socket;
}

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
  LORSA_ASSIGN_OR_RETURN(const Addresses addresses, Resolve(host));
  std::vector<Descriptor> listeners;
  absl::Status problem;
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    SetPort(*at->ai_addr, port);
    absl::StatusOr<Descriptor> listener = ListenOn(*at, host);
    if (!listener.ok()) {
      problem = listener.status();  // this machine may have IPv4 or IPv6 alone
      continue;
    }
    LORSA_ASSIGN_OR_RETURN(port, PortOf(listener->get()));
    listeners.push_back(*std::move(listener));
  }
  if (listeners.empty()) return problem;
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
