// Fields of a request that the server does not know.
#ifndef LORSA_SERVER_SERVICES_KNOWN_FIELDS_H_
#define LORSA_SERVER_SERVICES_KNOWN_FIELDS_H_

#include <google/protobuf/message.h>

#include <string>

#include "absl/status/status.h"

namespace lorsa::server {

// INVALID_ARGUMENT if `message`, or a message inside it at any depth, has a field that this server
// does not know. `path` is the name of `message` in the request; the error names the first message
// with such a field. Every message of a client that is stored must pass: an unknown field would
// have no effect on the job, and nothing but the size of the request bounds it.
absl::Status CheckFieldsAreKnown(const google::protobuf::Message& message, const std::string& path);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_KNOWN_FIELDS_H_
