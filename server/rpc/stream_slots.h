// Bounds on how many streams of a kind are open at once: in all, for each client, for each worker.
#ifndef LORSA_SERVER_RPC_STREAM_SLOTS_H_
#define LORSA_SERVER_RPC_STREAM_SLOTS_H_

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/authorization.h"

namespace lorsa::server {

// Workers do not count among the clients, so no client can keep a job waiting.
struct StreamBounds {
  int in_all = 1024;  // of clients
  int per_client = 512;
  int per_worker = 16;
};

// Thread-safe.
class StreamSlots {
 public:
  // `kind` is for messages: "streams of sequences".
  StreamSlots(absl::string_view kind, const StreamBounds& bounds)
      : counts_(std::make_shared<Counts>()), kind_(kind), bounds_(bounds) {}

  // A slot, given back when the pointer and its copies are gone (also after the StreamSlots is).
  // RESOURCE_EXHAUSTED (TOO_MANY_STREAMS) if the caller, or all clients together, have their share.
  absl::StatusOr<std::shared_ptr<void>> Take(const Caller& caller);

  // What to tell the operator while clients have all slots; else empty.
  std::string Shortage() const;

 private:
  struct Counts {
    absl::Mutex mutex;
    int clients ABSL_GUARDED_BY(mutex) = 0;
    std::map<std::string, int> by_caller ABSL_GUARDED_BY(mutex);
  };
  static void GiveBack(Counts& counts, const std::string& caller, bool is_client);
  absl::Status TooMany(int bound, absl::string_view of_whom) const;

  const std::shared_ptr<Counts> counts_;
  const std::string kind_;
  const StreamBounds bounds_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_STREAM_SLOTS_H_
