// Identifiers chosen by clients. They become parts of resource names and of paths below the data
// folder, so they are checked here, in one place, before any path is built from them.
#ifndef LORSA_BASE_IDENTIFIERS_H_
#define LORSA_BASE_IDENTIFIERS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lorsa {

// OK for 1 to 63 characters of a–z, 0–9, '-', '_' and '.', the first a letter or digit.
// INVALID_ARGUMENT otherwise; `what` ("job id") begins the message.
absl::Status ValidateId(absl::string_view what, absl::string_view id);

// "smollm2" from "activationSets/smollm2" for the collection "activationSets". INVALID_ARGUMENT
// if the name has another form or its id is not valid.
absl::StatusOr<std::string> IdFromName(absl::string_view collection, absl::string_view name);

}  // namespace lorsa

#endif  // LORSA_BASE_IDENTIFIERS_H_
