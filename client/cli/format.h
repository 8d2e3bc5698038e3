// Numbers, times and names as people read them.
#ifndef LORSA_CLIENT_CLI_FORMAT_H_
#define LORSA_CLIENT_CLI_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/timestamp.pb.h"
#include "lorsa/v1/job.pb.h"

namespace lorsa::cli {

std::string FormatCount(int64_t count);        // 1,234,567
std::string FormatShortCount(double count);    // 999, 92.2k, 1.25M, 800M; three digits
std::string FormatBytes(int64_t bytes);        // 999 B, 1.25 kB, 302 MB; powers of 1,000
std::string FormatTimeSpan(absl::Duration d);  // 45s, 1m49s, 2h05m, 3d04h; "?" if infinite
std::string FormatNumber(double value);        // four digits: 0.2814, 63.9, 1.235e-05
std::string FormatPercent(double fraction);    // 45%; 100% only for all
std::string FormatTime(const google::protobuf::Timestamp& time);  // 2026-11-30 04:10:51Z

// RUNNING for JOB_STATE_RUNNING; "-" for unspecified.
std::string FormatState(v1::JobState state);

// The last part of a resource name: "demo" of "jobs/demo".
std::string IdOf(absl::string_view name);

// `text` with every control character but newline and tab replaced by '?': what a server sends
// must not steer the terminal.
std::string Printable(absl::string_view text);

}  // namespace lorsa::cli

#endif  // LORSA_CLIENT_CLI_FORMAT_H_
