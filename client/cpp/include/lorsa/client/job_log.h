// What the workers of a job printed, across restarts of the server.
#ifndef LORSA_CLIENT_JOB_LOG_H_
#define LORSA_CLIENT_JOB_LOG_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "lorsa/client/client.h"
#include "lorsa/v1/job_service.pb.h"

namespace lorsa::client {

// Calls `on_lines`, on this thread, with whole lines of UTF-8, all attempts in order, each line
// once; reconnects by itself. Returns at the log's end; with request.follow, once the job has
// ended. NOT_FOUND if there is no such job.
absl::Status ReadJobLog(Client& client, const v1::ReadLogsRequest& request,
                        absl::FunctionRef<void(const v1::ReadLogsResponse&)> on_lines,
                        const OutageFunction& on_outage);

}  // namespace lorsa::client

#endif  // LORSA_CLIENT_JOB_LOG_H_
