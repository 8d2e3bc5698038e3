// What attempts stage: checkpoints in the making and a copy of the layer's weights.
#ifndef LORSA_SERVER_JOBS_STAGING_H_
#define LORSA_SERVER_JOBS_STAGING_H_

#include "server/jobs/job_environment.h"

namespace lorsa::server {

// Removes what `last` and the attempts before it have staged, which are over: nobody publishes it
// any more. Attempts with a higher number are those of a newer catalog and are left alone. A
// failure is logged and left at that; the next attempt, the job's end or the next server tries
// again.
void RemoveStaging(const JobEnvironment& env, const AttemptKey& last);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_STAGING_H_
