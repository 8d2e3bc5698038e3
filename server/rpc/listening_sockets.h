// Sockets that listen on each address of a host.
#ifndef LORSA_SERVER_RPC_LISTENING_SOCKETS_H_
#define LORSA_SERVER_RPC_LISTENING_SOCKETS_H_

#include <netdb.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/path_at.h"

namespace lorsa::server {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// Of a name or address, IPv6 in brackets; UNAVAILABLE if there is none.
absl::StatusOr<Addresses> ResolveHost(const std::string& host);

// One socket for each of `addresses`, all on `port`, or on one free port if that is 0. An address
// that this machine lacks, as one with IPv4 or IPv6 alone does, is left out. UNAVAILABLE, naming
// `host`, if none is left or the port is in use on any: another program would be taken for this
// one.
absl::StatusOr<std::vector<Descriptor>> ListenOnEach(const addrinfo* addresses,
                                                     const std::string& host, int port);

absl::StatusOr<int> PortOf(int socket);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_LISTENING_SOCKETS_H_
