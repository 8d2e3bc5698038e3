#include "server/rpc/listening_sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/status_macros.h"

namespace lorsa::server {
namespace {

constexpr int kTriesForAnyPort = 10;

void SetPort(sockaddr& address, int port) {
  const in_port_t ordered = htons(static_cast<uint16_t>(port));
  if (address.sa_family == AF_INET) reinterpret_cast<sockaddr_in&>(address).sin_port = ordered;
  if (address.sa_family == AF_INET6) reinterpret_cast<sockaddr_in6&>(address).sin6_port = ordered;
}

// NOT_FOUND if this machine lacks the address, as one with IPv4 or IPv6 alone does; ALREADY_EXISTS
// if the port is in use.
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
    const int error = errno;
    const std::string message(ErrnoStatus(error, "listen on", host).message());
    if (error == EAFNOSUPPORT || error == EADDRNOTAVAIL) return absl::NotFoundError(message);
    if (error == EADDRINUSE) return absl::AlreadyExistsError(message);
    return absl::UnavailableError(message);
  }
  return socket;
}

absl::StatusOr<std::vector<Descriptor>> ListenOnAll(const addrinfo* addresses,
                                                    const std::string& host, int port) {
  std::vector<Descriptor> listeners;
  absl::Status lacking;
  for (const addrinfo* at = addresses; at != nullptr; at = at->ai_next) {
    SetPort(*at->ai_addr, port);
    absl::StatusOr<Descriptor> listener = ListenOn(*at, host);
    if (absl::IsNotFound(listener.status())) {
      lacking = listener.status();
      continue;
    }
    LORSA_RETURN_IF_ERROR(listener.status());
    LORSA_ASSIGN_OR_RETURN(port, PortOf(listener->get()));
    listeners.push_back(*std::move(listener));
  }
  if (listeners.empty()) return lacking;
  return listeners;
}

}  // namespace

absl::StatusOr<Addresses> ResolveHost(const std::string& host) {
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

absl::StatusOr<std::vector<Descriptor>> ListenOnEach(const addrinfo* addresses,
                                                     const std::string& host, int port) {
  auto listeners = ListenOnAll(addresses, host, port);
  // A port that was free on the first address may be in use on the second.
  for (int i = 0; i < kTriesForAnyPort && port == 0 && absl::IsAlreadyExists(listeners.status());
       ++i) {
    listeners = ListenOnAll(addresses, host, port);
  }
  if (!listeners.ok()) return absl::UnavailableError(listeners.status().message());
  return listeners;
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

}  // namespace lorsa::server
