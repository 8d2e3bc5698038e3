// The numbers are those of the protocol in catalog.h.
#include "server/catalog/catalog_writer.h"

#include <utility>

#include "base/exception_wall.h"
#include "base/status_macros.h"

namespace lorsa::server {
namespace {

// Bounds how long one caller waits for the others of its group.
constexpr size_t kMaxGroup = 256;

}  // namespace

CatalogWriter::CatalogWriter(absl::StatusOr<std::unique_ptr<Connection>> connection, Opener open)
    : connection_(connection.ok() ? *std::move(connection) : nullptr),
      open_(std::move(open)),
      problem_(connection.status()),
      thread_([this] { Run(); }) {}

CatalogWriter::~CatalogWriter() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

absl::Status CatalogWriter::Write(const std::function<absl::Status(WriteTransaction&)>& write) {
  Pending pending{write};
  absl::MutexLock lock(&mu_);
  queue_.push_back(&pending);  // 1
  mu_.Await(absl::Condition(&pending.done));
  return pending.result;
}

void CatalogWriter::Run() {
  for (std::vector<Pending*> group = TakeGroup(); !group.empty(); group = TakeGroup()) {
    CommitGroup(group);
    absl::MutexLock lock(&mu_);
    for (Pending* pending : group) pending->done = true;  // 5
  }
}

std::vector<CatalogWriter::Pending*> CatalogWriter::TakeGroup() {
  absl::MutexLock lock(&mu_);
  const auto ready = [this]()
                         ABSL_SHARED_LOCKS_REQUIRED(mu_) { return stopping_ || !queue_.empty(); };
  mu_.Await(absl::Condition(&ready));
  std::vector<Pending*> group;  // 2
  while (!queue_.empty() && group.size() < kMaxGroup) {
    group.push_back(queue_.front());
    queue_.pop_front();
  }
  return group;
}

absl::Status CatalogWriter::problem() const {
  absl::MutexLock lock(&mu_);
  return problem_;
}

absl::Status CatalogWriter::CheckWritable() {
  if (problem().ok()) return absl::OkStatus();
  // On the writer's thread, so that a later failure, that of this commit included, is kept.
  return Write([this](WriteTransaction& transaction) -> absl::Status {
    LORSA_RETURN_IF_ERROR(transaction.Touch());
    absl::MutexLock lock(&mu_);
    problem_ = absl::OkStatus();
    return absl::OkStatus();
  });
}

void CatalogWriter::CommitGroup(const std::vector<Pending*>& group) {
  const absl::Status status = RunGroup(group);
  if (status.ok()) return;
  {
    absl::MutexLock lock(&mu_);
    problem_ = status;
  }
  if (connection_ != nullptr && connection_->in_transaction()) {
    connection_->Execute("ROLLBACK").IgnoreError();  // The first error is the one to report.
  }
  if (connection_ != nullptr && connection_->read_only()) connection_ = nullptr;
  for (Pending* pending : group) {
    if (pending->result.ok()) pending->result = status;
  }
}

absl::Status CatalogWriter::RunGroup(const std::vector<Pending*>& group) {
  if (connection_ == nullptr) {
    LORSA_ASSIGN_OR_RETURN(connection_, open_());
  }
  LORSA_RETURN_IF_ERROR(connection_->Execute("BEGIN IMMEDIATE"));
  for (Pending* pending : group) {
    LORSA_RETURN_IF_ERROR(RunUnderSavepoint(*pending));
  }
  return connection_->Execute("COMMIT");  // 4
}

// 3. An error returned is that of the whole group.
absl::Status CatalogWriter::RunUnderSavepoint(Pending& pending) {
  LORSA_RETURN_IF_ERROR(connection_->Execute("SAVEPOINT one_write"));
  WriteTransaction transaction(*connection_);
  pending.result = CatchExceptions([&] { return pending.write(transaction); });
  // A full disk makes SQLite roll the whole transaction back.
  if (!connection_->in_transaction()) return pending.result;
  return connection_->Execute(pending.result.ok() ? "RELEASE one_write"
                                                  : "ROLLBACK TO one_write; RELEASE one_write");
}

}  // namespace lorsa::server
