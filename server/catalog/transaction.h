// What the functions that read and write the tables work on. Each of them takes a transaction, and
// only the pool and the writer make one: a read or write outside a transaction does not compile.
#ifndef LORSA_SERVER_CATALOG_TRANSACTION_H_
#define LORSA_SERVER_CATALOG_TRANSACTION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/catalog/schema.h"
#include "server/catalog/sqlite.h"

namespace lorsa::server {

// One snapshot: all statements see the catalog after one and the same commit. ConnectionPool::Run
// makes it. One thread at a time.
class ReadTransaction {
 public:
  ReadTransaction(const ReadTransaction&) = delete;
  ReadTransaction& operator=(const ReadTransaction&) = delete;

  // As Connection::Prepare.
  absl::StatusOr<Statement> Prepare(absl::string_view sql) { return connection_.Prepare(sql); }

 protected:
  explicit ReadTransaction(Connection& connection) : connection_(connection) {}

  Connection& connection_;

 private:
  friend class ConnectionPool;
};

// The writer's transaction. It reads what was committed last and its own writes, and nobody else
// writes meanwhile, so what it decides on these rows still holds when it commits.
// CatalogWriter::Write makes it.
class WriteTransaction : public ReadTransaction {
 public:
  // As Connection's.
  int64_t changes() const { return connection_.changes(); }
  int64_t last_insert_rowid() const { return connection_.last_insert_rowid(); }
  // Writes a page as it is, so that the commit shows whether the disk takes anything.
  absl::Status Touch() {
    return connection_.Execute(absl::StrCat("PRAGMA user_version = ", kSchemaVersion));
  }

 private:
  friend class CatalogWriter;
  explicit WriteTransaction(Connection& connection) : ReadTransaction(connection) {}
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CATALOG_TRANSACTION_H_
