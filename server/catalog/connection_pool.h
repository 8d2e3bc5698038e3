// Connections for reading. WAL lets them read while the writer writes.
#ifndef LORSA_SERVER_CATALOG_CONNECTION_POOL_H_
#define LORSA_SERVER_CATALOG_CONNECTION_POOL_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/catalog/sqlite.h"
#include "server/catalog/transaction.h"

namespace lorsa::server {

// Thread-safe. At most as many connections as ever read at once, which is the number of threads
// that call.
class ConnectionPool {
 public:
  // The file is there. `read_only`: its disk takes nothing, until OpenForWriting
  // succeeds.
  ConnectionPool(std::string path, bool read_only)
      : path_(std::move(path)), read_only_(read_only) {}

  // A connection that writes, opened while nothing reads.
  absl::StatusOr<std::unique_ptr<Connection>> OpenForWriting();

  // Runs `read(transaction)`, which returns a Status or StatusOr, on a snapshot of the catalog.
  template <typename Read>
  auto Run(Read read) -> decltype(read(std::declval<ReadTransaction&>())) {
    absl::ReaderMutexLock reading(&opening_mu_);
    absl::StatusOr<std::unique_ptr<Connection>> connection = Take();
    if (!connection.ok()) return std::move(connection).status();
    auto result = RunOn(**connection, read);
    Return(*std::move(connection));
    return result;
  }

  // The same on a new connection, which has nothing in its cache and is not kept.
  template <typename Read>
  auto RunUncached(Read read) -> decltype(read(std::declval<ReadTransaction&>())) {
    absl::ReaderMutexLock reading(&opening_mu_);
    absl::StatusOr<std::unique_ptr<Connection>> connection = Open();
    if (!connection.ok()) return std::move(connection).status();
    return RunOn(**connection, read);
  }

 private:
  template <typename Read>
  static auto RunOn(Connection& connection, Read& read)
      -> decltype(read(std::declval<ReadTransaction&>())) {
    if (absl::Status begun = Begin(connection); !begun.ok()) return begun;
    ReadTransaction transaction(connection);
    auto result = read(transaction);
    End(connection);
    return result;
  }

  static absl::Status Begin(Connection& connection);
  static void End(Connection& connection);

  absl::StatusOr<std::unique_ptr<Connection>> Open() const ABSL_SHARED_LOCKS_REQUIRED(opening_mu_);
  absl::StatusOr<std::unique_ptr<Connection>> Take() ABSL_SHARED_LOCKS_REQUIRED(opening_mu_);
  void Return(std::unique_ptr<Connection> connection);

  const std::string path_;
  absl::Mutex opening_mu_;
  bool read_only_ ABSL_GUARDED_BY(opening_mu_);
  absl::Mutex mu_;
  std::vector<std::unique_ptr<Connection>> idle_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CATALOG_CONNECTION_POOL_H_
