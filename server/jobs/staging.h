// What attempts stage: checkpoints in the making and a copy of the layer's weights.
#ifndef LORSA_SERVER_JOBS_STAGING_H_
#define LORSA_SERVER_JOBS_STAGING_H_

#include "server/jobs/job_environment.h"

namespace lorsa::server {

// Removes what an attempt that is over has staged: nobody publishes it any more. A failure is
// logged and left at that; the next attempt or the next server tries again.
void RemoveStaging(const JobEnvironment& env, const AttemptKey& attempt);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_STAGING_H_
