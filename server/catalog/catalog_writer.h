// The one thread that writes to the catalog, in groups: steps 1 to 5 of the protocol in catalog.h.
#ifndef LORSA_SERVER_CATALOG_CATALOG_WRITER_H_
#define LORSA_SERVER_CATALOG_CATALOG_WRITER_H_

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/catalog/sqlite.h"
#include "server/catalog/transaction.h"

namespace lorsa::server {

// Thread-safe.
class CatalogWriter {
 public:
  using Opener = std::function<absl::StatusOr<std::unique_ptr<Connection>>()>;

  // `connection` is an error while the disk takes nothing: each write then tries `open` first.
  CatalogWriter(absl::StatusOr<std::unique_ptr<Connection>> connection, Opener open);
  // Finishes what is queued.
  ~CatalogWriter();

  // Runs `write` on the writer thread inside a transaction; returns once that has committed, or the
  // error of `write` or of the commit. In each case of an error nothing of `write` happened.
  absl::Status Write(const std::function<absl::Status(WriteTransaction&)>& write);

  // OK if writes succeed, as far as is known; otherwise the error of the newest that did not.
  absl::Status problem() const;
  // The same after a look, if there was a problem.
  absl::Status CheckWritable();

 private:
  struct Pending {
    const std::function<absl::Status(WriteTransaction&)>& write;
    absl::Status result;
    bool done = false;
  };

  void Run();
  std::vector<Pending*> TakeGroup();
  void CommitGroup(const std::vector<Pending*>& group);
  absl::Status RunGroup(const std::vector<Pending*>& group);
  absl::Status RunUnderSavepoint(Pending& pending);

  std::unique_ptr<Connection> connection_;  // of the writer thread alone; null: open first
  const Opener open_;
  mutable absl::Mutex mu_;
  absl::Status problem_ ABSL_GUARDED_BY(mu_);
  std::deque<Pending*> queue_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CATALOG_CATALOG_WRITER_H_
