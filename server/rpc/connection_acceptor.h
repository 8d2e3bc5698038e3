// Lets connections in to a gRPC server, as many as the process has descriptors for.
#ifndef LORSA_SERVER_RPC_CONNECTION_ACCEPTOR_H_
#define LORSA_SERVER_RPC_CONNECTION_ACCEPTOR_H_

#include <grpcpp/server_builder.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/path_at.h"

namespace lorsa::server {

// gRPC's own listener accepts without a bound, and accepts nothing more, ever, once accept(2) has
// failed for want of a descriptor. This one turns connections away before that: a new descriptor is
// the lowest that is free, so its number says how many are in use.
class ConnectionAcceptor {
 public:
  // Listens on `host` (a name or address, IPv6 in brackets) and `port`, 0 for any free one, the
  // same on each address of the host. UNAVAILABLE if that cannot be done.
  static absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> Listen(const std::string& host,
                                                                    int port);
  // Stops to listen; connections that were let in stay.
  ~ConnectionAcceptor();

  int port() const { return port_; }

  // Before the server is built: it gets the connections.
  void Serve(grpc::ServerBuilder& builder, std::shared_ptr<grpc::ServerCredentials> credentials);
  // Once the server was started. Connections that came before have waited.
  void Start();

  // Whether a connection was turned away, or could not be accepted, in the last few seconds.
  bool IsFull() const;

 private:
  explicit ConnectionAcceptor(std::vector<Descriptor> listeners, Descriptor stop, int port);
  void Run();
  // All that wait at `listener`. False if the system had nothing left for one.
  bool AcceptFrom(int listener);
  void NoteFull();

  const std::vector<Descriptor> listeners_;
  const Descriptor stop_;  // becomes readable when the thread is to end
  const int port_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server_;
  std::atomic<int64_t> full_until_ms_ = 0;  // of the steady clock
  std::thread thread_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_CONNECTION_ACCEPTOR_H_
