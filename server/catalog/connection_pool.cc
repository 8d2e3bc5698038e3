#include "server/catalog/connection_pool.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace lorsa::server {

absl::Status ConnectionPool::Begin(Connection& connection) {
  LORSA_ASSIGN_OR_RETURN(Statement begin, connection.Prepare("BEGIN"));
  return begin.Run();
}

// What was read stands whatever becomes of this; Return looks whether the transaction is over.
void ConnectionPool::End(Connection& connection) {
  absl::StatusOr<Statement> commit = connection.Prepare("COMMIT");
  if (commit.ok()) commit->Run().IgnoreError();
}

absl::StatusOr<std::unique_ptr<Connection>> ConnectionPool::OpenForWriting() {
  absl::MutexLock nobody_reads(&opening_mu_);
  {
    // They would not see what is written from now on, and SQLite shares with them what they opened
    // for reading alone.
    absl::MutexLock lock(&mu_);
    idle_.clear();
  }
  LORSA_ASSIGN_OR_RETURN(const auto probe, Connection::OpenExisting(path_));
  if (probe->read_only()) {
    return absl::UnavailableError(absl::StrCat("catalog: ", path_, " is on a read-only disk"));
  }
  // Without waiting for a lock, since all reads wait here.
  LORSA_RETURN_IF_ERROR(probe->Execute("PRAGMA busy_timeout = 0; BEGIN IMMEDIATE; COMMIT"));
  read_only_ = false;
  return Connection::OpenExisting(path_);
}

absl::StatusOr<std::unique_ptr<Connection>> ConnectionPool::Open() const {
  if (read_only_) return Connection::OpenReadOnly(path_);
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

// A connection still in its transaction would go on reading an old snapshot: it is closed.
void ConnectionPool::Return(std::unique_ptr<Connection> connection) {
  if (connection->in_transaction()) return;
  absl::MutexLock lock(&mu_);
  idle_.push_back(std::move(connection));
}

}  // namespace lorsa::server
