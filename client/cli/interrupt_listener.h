// Ctrl-C as a call on an ordinary thread, where locks may be taken.
#ifndef LORSA_CLIENT_CLI_INTERRUPT_LISTENER_H_
#define LORSA_CLIENT_CLI_INTERRUPT_LISTENER_H_

#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace lorsa::cli {

// Takes SIGINT over for the whole process, for good. Make one, before any other thread starts.
class InterruptListener {
 public:
  InterruptListener();

  // Calls `handler` at the next SIGINT; the one after that, or one that comes while there is no
  // handler, ends the process with exit code 130.
  void SetHandler(std::function<void()> handler) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  [[noreturn]] void Listen() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  std::function<void()> handler_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lorsa::cli

#endif  // LORSA_CLIENT_CLI_INTERRUPT_LISTENER_H_
