// By what a request that is sent again is known: the request_id that its client chose, and its
// contents.
#ifndef LORSA_SERVER_SERVICES_REQUEST_IDENTITY_H_
#define LORSA_SERVER_SERVICES_REQUEST_IDENTITY_H_

#include <google/protobuf/message.h>

#include <string>

#include "absl/status/status.h"
#include "server/catalog/catalog.h"

namespace lorsa::server {

// INVALID_ARGUMENT (field request_id) if it is longer than 63 characters.
absl::Status CheckRequestId(const std::string& request_id);

// Of `request`, which has been given this request_id.
RequestIdentity IdentityOf(const google::protobuf::Message& request, const std::string& request_id);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_REQUEST_IDENTITY_H_
