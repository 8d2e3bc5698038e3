#ifndef LORSA_SERVER_MODEL_ATTEMPT_KEY_H_
#define LORSA_SERVER_MODEL_ATTEMPT_KEY_H_

#include <string>

namespace lorsa::server {

// One attempt of one job.
struct AttemptKey {
  std::string job_id;
  int attempt = 0;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_MODEL_ATTEMPT_KEY_H_
