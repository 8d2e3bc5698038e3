#include "server/jobs/outcome_file.h"

#include "base/status_macros.h"
#include "job_spec/textproto.h"

namespace lorsa::server {
namespace {

constexpr size_t kMaxOutcomeBytes = 64 << 10;

}  // namespace

absl::StatusOr<v1::WorkerOutcome> ReadOutcome(FileSystem& fs, const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const std::string text, ReadFile(fs, path, kMaxOutcomeBytes));
  v1::WorkerOutcome outcome;
  LORSA_RETURN_IF_ERROR(ParseTextproto(path, text, outcome));
  return outcome;
}

}  // namespace lorsa::server
