// The bar of a command that moves or reads many bytes, on the error stream: the result alone goes
// to the output.
#ifndef LORSA_CLIENT_CLI_BYTE_PROGRESS_H_
#define LORSA_CLIENT_CLI_BYTE_PROGRESS_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cli/progress_display.h"
#include "client/cli/session.h"

namespace lorsa::cli {

// Bytes done and in all, the speed since the start, and the time left. Shows nothing with --json.
class ByteProgress {
 public:
  // `session` outlives this.
  explicit ByteProgress(Session& session);

  void Show(int64_t done, int64_t total);
  // Of a message of a stream; nothing if it carries the outcome.
  template <typename Response>
  void ShowProgressOf(const Response& response) {
    if (!response.has_progress()) return;
    Show(response.progress().bytes_done(), response.progress().bytes_total());
  }
  // The connection broke and is made anew.
  void ShowOutage(const absl::Status& why);

 private:
  const bool quiet_;
  const std::function<absl::Time()>& now_;
  const absl::Time start_;
  int64_t first_ = -1;  // bytes done at the first call: what an earlier try had left
  ProgressDisplay display_;
};

}  // namespace lorsa::cli

#endif  // LORSA_CLIENT_CLI_BYTE_PROGRESS_H_
