// What a client may ask for in a JobPolicy.
#ifndef LORSA_SERVER_SERVICES_JOB_POLICY_H_
#define LORSA_SERVER_SERVICES_JOB_POLICY_H_

#include <google/protobuf/map.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/field_violation.h"
#include "lorsa/v1/job.pb.h"
#include "server/webhooks/webhook_receivers.h"

namespace lorsa::server {

// Everything that is wrong with it, by the bounds in job.proto and the webhooks that this server
// allows; fields are named "policy.…".
std::vector<FieldViolation> PolicyViolations(const v1::JobPolicy& policy, absl::Time now,
                                             const WebhookReceivers& webhooks);

// The same of labels alone, in a field called `field`.
std::vector<FieldViolation> LabelViolations(
    const google::protobuf::Map<std::string, std::string>& labels, const std::string& field);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_JOB_POLICY_H_
