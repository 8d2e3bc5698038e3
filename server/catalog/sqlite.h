// The wall around SQLite's C interface: connections, prepared statements and errors as Status.
#ifndef LORSA_SERVER_CATALOG_SQLITE_H_
#define LORSA_SERVER_CATALOG_SQLITE_H_

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lorsa::server {

// A prepared statement under way. Parameters are bound in order, the first being ?1; a failed Bind
// comes out at Step. Hands the statement back to its connection when destroyed.
class Statement {
 public:
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  Statement& Bind(int64_t value);
  Statement& Bind(double value);
  // As text; copied.
  Statement& Bind(absl::string_view value);
  Statement& BindBlob(absl::string_view value);
  Statement& BindNull();

  // True: a row stands to be read. False: the statement is done.
  absl::StatusOr<bool> Step();
  // Step for a statement that returns no row.
  absl::Status Run();

  // Columns of the current row, counted from 0. NULL reads as 0 or empty.
  int64_t Int(int column) const { return sqlite3_column_int64(statement_, column); }
  double Double(int column) const { return sqlite3_column_double(statement_, column); }
  std::string Bytes(int column) const;
  bool IsNull(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

 private:
  friend class Connection;
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
  Statement& Check(int code);

  sqlite3_stmt* statement_;
  int bound_ = 0;
  int bind_error_ = SQLITE_OK;
};

// One thread at a time. Statements must be gone before their connection.
class Connection {
 public:
  // Opens or creates the file and sets foreign_keys, synchronous=FULL and a busy timeout.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const std::string& path);
  // The same for a file that must be there: NOT_FOUND otherwise.
  static absl::StatusOr<std::unique_ptr<Connection>> OpenExisting(const std::string& path);
  // The same without writing anything, beside the file either: for a disk that takes nothing. While
  // one that was closed cleanly is open so, nobody may write to it.
  static absl::StatusOr<std::unique_ptr<Connection>> OpenReadOnly(const std::string& path);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // The prepared form is kept: `sql` should be one of few constant texts, and each is used by one
  // Statement at a time.
  absl::StatusOr<Statement> Prepare(absl::string_view sql);
  // Runs statements that return nothing of interest.
  absl::Status Execute(const std::string& sql);

  // Closing leaves the write-ahead log as it is, instead of moving it into the file.
  void LeaveLogOnClose();

  // Rows that the last INSERT, UPDATE or DELETE touched.
  int64_t changes() const { return sqlite3_changes64(db_); }
  int64_t last_insert_rowid() const { return sqlite3_last_insert_rowid(db_); }
  // False also after an error that made SQLite roll back by itself (a full disk).
  bool in_transaction() const { return sqlite3_get_autocommit(db_) == 0; }
  // Whether the file could be opened for reading alone, and will stay so for this connection.
  bool read_only() const { return sqlite3_db_readonly(db_, "main") == 1; }

 private:
  explicit Connection(sqlite3* db) : db_(db) {}
  static absl::StatusOr<std::unique_ptr<Connection>> OpenWith(const std::string& path, int flags);

  sqlite3* const db_;
  std::map<std::string, sqlite3_stmt*, std::less<>> statements_;
};

// The canonical Status of an SQLite result code. RESOURCE_EXHAUSTED for a full or failing disk,
// DATA_LOSS for a damaged file, UNAVAILABLE for one that is locked or cannot be opened.
absl::Status SqliteStatus(int code, absl::string_view message);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CATALOG_SQLITE_H_
