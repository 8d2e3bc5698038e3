// Text of Protobuf messages as people write it.
#ifndef LORSA_JOB_SPEC_TEXTPROTO_H_
#define LORSA_JOB_SPEC_TEXTPROTO_H_

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace lorsa {

// Fills `message`. INVALID_ARGUMENT, "SOURCE:LINE:COLUMN: what is wrong", for text that does not
// parse, an unknown field included.
absl::Status ParseTextproto(const std::string& source, const std::string& text,
                            google::protobuf::Message& message);

}  // namespace lorsa

#endif  // LORSA_JOB_SPEC_TEXTPROTO_H_
