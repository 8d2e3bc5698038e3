// What is wrong with the server just now.
#ifndef LORSA_SERVER_SERVICES_SERVER_CONDITIONS_H_
#define LORSA_SERVER_SERVICES_SERVER_CONDITIONS_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "lorsa/v1/server_info_service.pb.h"

namespace lorsa::server {

// The reasons of v1::ServerCondition.
inline constexpr char kRecovering[] = "RECOVERING";
inline constexpr char kDraining[] = "DRAINING";
inline constexpr char kDiskReserve[] = "DISK_RESERVE";
inline constexpr char kCatalogUnreadable[] = "CATALOG_UNREADABLE";
inline constexpr char kCatalogReadOnly[] = "CATALOG_READ_ONLY";
inline constexpr char kDamagedData[] = "DAMAGED_DATA";
inline constexpr char kTooManyStreams[] = "TOO_MANY_STREAMS";
inline constexpr char kLaunchFailed[] = "LAUNCH_FAILED";
inline constexpr char kTooManyConnections[] = "TOO_MANY_CONNECTIONS";

// Thread-safe. A condition is logged when it begins, when its message changes and when it is over.
class ServerConditions {
 public:
  explicit ServerConditions(std::function<absl::Time()> now) : now_(std::move(now)) {}

  // Whether the condition holds: it does unless `message` is empty.
  void Set(absl::string_view reason, absl::string_view message);

  // The message of a condition; empty if it does not hold.
  std::string Message(absl::string_view reason) const;
  bool Holds(absl::string_view reason) const { return !Message(reason).empty(); }
  // In order of reason.
  std::vector<v1::ServerCondition> All() const;

 private:
  const std::function<absl::Time()> now_;
  mutable absl::Mutex mu_;
  std::map<std::string, v1::ServerCondition, std::less<>> conditions_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_SERVER_CONDITIONS_H_
