#include "server/catalog/sqlite.h"

#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"

namespace lorsa::server {

namespace {

absl::Status DiskStatus(int code, absl::string_view text) {
  const bool full = (code & 0xff) == SQLITE_FULL || code == SQLITE_IOERR_WRITE;
  return absl::ResourceExhaustedError(
      absl::StrCat(text, full ? "; make room on the disk of the data folder and try again"
                              : "; the disk of the data folder fails: see the system's log"));
}

}  // namespace

absl::Status SqliteStatus(int code, absl::string_view message) {
  const std::string text = absl::StrCat("catalog: ", message, " (SQLite code ", code, ")");
  switch (code & 0xff) {  // The low byte is the primary code, the rest tells apart its kinds.
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
      return absl::OkStatus();
    case SQLITE_FULL:
    case SQLITE_IOERR:
      return DiskStatus(code, text);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
      return absl::UnavailableError(text);
    default:
      return absl::InternalError(text);
  }
}

Statement::Statement(Statement&& other) noexcept
    : statement_(std::exchange(other.statement_, nullptr)),
      bound_(other.bound_),
      bind_error_(other.bind_error_) {}

Statement::~Statement() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

Statement& Statement::Check(int code) {
  if (bind_error_ == SQLITE_OK) bind_error_ = code;
  return *this;
}

Statement& Statement::Bind(int64_t value) {
  return Check(sqlite3_bind_int64(statement_, ++bound_, value));
}

Statement& Statement::Bind(double value) {
  return Check(sqlite3_bind_double(statement_, ++bound_, value));
}

Statement& Statement::Bind(absl::string_view value) {
  return Check(sqlite3_bind_text64(statement_, ++bound_, value.data(), value.size(),
                                   SQLITE_TRANSIENT, SQLITE_UTF8));
}

Statement& Statement::BindBlob(absl::string_view value) {
  // An empty view may hold a null pointer, which SQLite would read as NULL.
  if (value.empty()) return Check(sqlite3_bind_zeroblob(statement_, ++bound_, 0));
  return Check(
      sqlite3_bind_blob64(statement_, ++bound_, value.data(), value.size(), SQLITE_TRANSIENT));
}

Statement& Statement::BindNull() { return Check(sqlite3_bind_null(statement_, ++bound_)); }

absl::StatusOr<bool> Statement::Step() {
  const int code = bind_error_ != SQLITE_OK ? bind_error_ : sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return SqliteStatus(code, sqlite3_errmsg(sqlite3_db_handle(statement_)));
}

absl::Status Statement::Run() { return Step().status(); }

std::string Statement::Bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), size);
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const std::string& path) {
  return OpenWith(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::OpenExisting(const std::string& path) {
  // SQLite says the same of a file that is missing and of one that may not be opened.
  if (::access(path.c_str(), F_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("there is no catalog ", path));
  }
  return OpenWith(path, SQLITE_OPEN_READWRITE);
}

// A log holds what the file lacks, and SQLite reads both if the log's index is there too, which a
// server that was killed has left. Without a log the file is whole, and needs no index.
absl::StatusOr<std::unique_ptr<Connection>> Connection::OpenReadOnly(const std::string& path) {
  struct stat log;
  const bool has_log = ::stat((path + "-wal").c_str(), &log) == 0 && log.st_size > 0;
  const std::string name = absl::StrReplaceAll(path, {{"%", "%25"}, {"?", "%3f"}, {"#", "%23"}});
  return OpenWith(absl::StrCat("file:", name, has_log ? "" : "?immutable=1"),
                  SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::OpenWith(const std::string& path,
                                                                 int flags) {
  sqlite3* db = nullptr;
  flags |= SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const int code = sqlite3_open_v2(path.c_str(), &db, flags, nullptr);
  // Even a failed open makes a handle, which holds the message and must be closed.
  std::unique_ptr<Connection> connection(new Connection(db));
  if (code != SQLITE_OK) {
    return SqliteStatus(code, absl::StrCat("open ", path, ": ", sqlite3_errmsg(db)));
  }
  sqlite3_busy_timeout(db, /*ms=*/10'000);
  LORSA_RETURN_IF_ERROR(
      connection->Execute("PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL;"));
  return connection;
}

Connection::~Connection() {
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(db_);
}

void Connection::LeaveLogOnClose() {
  sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

absl::StatusOr<Statement> Connection::Prepare(absl::string_view sql) {
  if (const auto found = statements_.find(sql); found != statements_.end()) {
    return Statement(found->second);
  }
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(db_, sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return SqliteStatus(code, sqlite3_errmsg(db_));
  statements_.emplace(std::string(sql), statement);
  return Statement(statement);
}

absl::Status Connection::Execute(const std::string& sql) {
  const int code = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  return SqliteStatus(code, sqlite3_errmsg(db_));
}

}  // namespace lorsa::server
