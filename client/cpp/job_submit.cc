#include "lorsa/client/job_submit.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/identifiers.h"
#include "job_spec/spec_text.h"

namespace lorsa::client {
namespace {

constexpr size_t kMaxStem = 42;  // leaves the 21 characters of date, time and digits within 63

uint64_t SystemRandom() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

absl::StatusOr<v1::TrainingSpec> ParseTrainingSpec(const std::string& text) {
  return ParseSpec({.source = "the specification", .text = text, .json = IsJson(text)});
}

absl::StatusOr<v1::Job> SubmitJob(Client& client, v1::CreateJobRequest request) {
  if (request.job_id().empty()) {
    const v1::JobSpec& spec = request.spec();
    const std::string& stem =
        spec.has_program() ? spec.program().kind() : spec.training().activation_set();
    request.set_job_id(GenerateJobId(stem, absl::Now(), SystemRandom));
  }
  if (request.request_id().empty()) request.set_request_id(GenerateRequestId(SystemRandom));
  return client.Call(&v1::JobService::Stub::CreateJob, request);
}

std::string GenerateJobId(absl::string_view stem, absl::Time now,
                          const std::function<uint64_t()>& random) {
  if (!ValidateId("stem", stem).ok()) stem = "job";
  return absl::StrCat(stem.substr(0, kMaxStem), "-",
                      absl::FormatTime("%Y%m%d-%H%M%S", now, absl::UTCTimeZone()),
                      absl::StrFormat("-%04x", random() & 0xffff));
}

std::string GenerateRequestId(const std::function<uint64_t()>& random) {
  return absl::StrFormat("%016x%016x", random(), random());
}

}  // namespace lorsa::client
