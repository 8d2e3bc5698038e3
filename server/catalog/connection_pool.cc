#include "server/catalog/connection_pool.h"

#include "base/status_macros.h"

namespace lorsa::server {

absl::StatusOr<std::unique_ptr<Connection>> ConnectionPool::Open() const {
  LORSA_ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection, Connection::OpenExisting(path_));
  LORSA_RETURN_IF_ERROR(connection->Execute("PRAGMA query_only = ON"));
  return connection;
}

absl::StatusOr<std::unique_ptr<Connection>> ConnectionPool::Take() {
  {
    absl::MutexLock lock(&mu_);
    if (!idle_.empty()) {
      std::unique_ptr<Connection> connection = std::move(idle_.back());
      idle_.pop_back();
      return connection;
    }
  }
  return Open();
}

}  // namespace lorsa::server
