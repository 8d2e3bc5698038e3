// Queueing a job.
//
//   v1::CreateJobRequest request;
//   request.set_job_id("first");
//   auto spec = ParseTrainingSpec("activation_set: 'smollm2-l12' expansion_factor: 8 top_k: 64");
//   *request.mutable_spec()->mutable_training() = *spec;
//   absl::StatusOr<v1::Job> job = SubmitJob(client, request);
#ifndef LORSA_CLIENT_JOB_SUBMIT_H_
#define LORSA_CLIENT_JOB_SUBMIT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lorsa/client/client.h"
#include "lorsa/v1/job_service.pb.h"
#include "lorsa/v1/training_spec.pb.h"

namespace lorsa::client {

// A specification in Protobuf's text format, or in JSON if it begins with '{'. INVALID_ARGUMENT
// naming line and column (JSON: what Protobuf says) if it does not parse, an unknown field
// included.
absl::StatusOr<v1::TrainingSpec> ParseTrainingSpec(const std::string& text);

// Queues the job and returns it as it stands; with request.validate_only, as it would run and what
// it would take. An empty job_id or request_id is filled in, from the clock and the system's random
// numbers: thus a call that gRPC repeats after a broken connection makes one job. Errors are those
// of JobService.CreateJob, INVALID_ARGUMENT with a line for each wrong field.
absl::StatusOr<v1::Job> SubmitJob(Client& client, v1::CreateJobRequest request);

// {stem}-{yyyymmdd}-{hhmmss}-{4 hex digits}, in UTC: a valid job id. SubmitJob takes the activation
// set of a training job as the stem, else the kind. The stem is cut where it is too long, and "job"
// where it could not be part of an id.
std::string GenerateJobId(absl::string_view stem, absl::Time now,
                          const std::function<uint64_t()>& random);

// Lets the server tell a repeated request from another one.
std::string GenerateRequestId(const std::function<uint64_t()>& random);

}  // namespace lorsa::client

#endif  // LORSA_CLIENT_JOB_SUBMIT_H_
