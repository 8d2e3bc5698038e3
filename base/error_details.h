// How errors reach a client: a canonical code, one sentence, and the machine-readable details of
// google.rpc (AIP-193): an ErrorInfo always, a BadRequest where fields of the request are wrong, a
// RetryInfo where the same call may succeed later.
//
// Lower layers return absl::Status. What they know beyond code and sentence travels as payloads of
// the status, under the type URLs of those messages; the functions below attach them. Nothing here
// needs gRPC.
#ifndef LORSA_BASE_ERROR_DETAILS_H_
#define LORSA_BASE_ERROR_DETAILS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/field_violation.h"
#include "google/rpc/status.pb.h"

namespace lorsa {

// The domain of every ErrorInfo.
inline constexpr char kErrorDomain[] = "lorsa";

// `status` with a reason for programs, in UPPER_SNAKE_CASE ("STALE_ATTEMPT"), and what the sentence
// speaks of ("job" → "demo"). A reason set before stands. OK is returned as it is.
absl::Status WithReason(absl::Status status, absl::string_view reason,
                        const std::map<std::string, std::string>& metadata = {});

// The reason attached to `status`; if none was, the name of its code ("NOT_FOUND").
std::string ReasonOf(const absl::Status& status);

// INVALID_ARGUMENT with the reason INVALID_FIELDS, naming every field; `violations` is not empty.
absl::Status InvalidFields(const std::vector<FieldViolation>& violations);

// InvalidFields of one field.
absl::Status InvalidField(absl::string_view field, absl::string_view description);

// If `status` is INVALID_ARGUMENT and names no field yet: the same, said of `field`. For errors of
// validators that do not know which field they looked at.
absl::Status ForField(absl::Status status, absl::string_view field);

// `status` with advice to call again after `delay`.
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);

// The advice attached to `status`, if any.
std::optional<absl::Duration> RetryDelayOf(const absl::Status& status);

// `status`, which is not OK, as it goes over the wire. Sentence and violations are cut to what fits
// in the trailers that gRPC's clients accept (8 KiB), and bytes that are not UTF-8 become '?'.
google::rpc::Status ToRpcStatus(const absl::Status& status);

}  // namespace lorsa

#endif  // LORSA_BASE_ERROR_DETAILS_H_
