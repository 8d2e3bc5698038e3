#include "server/jobs/device_pool.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace lorsa::server {
namespace {

// Empty if the process has no such variable or cannot be looked at.
std::string DeviceOf(pid_t pid) {
  std::ifstream environment(absl::StrCat("/proc/", pid, "/environ"), std::ios::binary);
  for (std::string entry; std::getline(environment, entry, '\0');) {
    absl::string_view device = entry;
    if (absl::ConsumePrefix(&device, absl::StrCat(kDeviceVariable, "="))) {
      return std::string(device);
    }
  }
  return "";
}

}  // namespace

std::string DevicePool::Choose() {
  std::erase_if(holders_,
                [](const Holder& holder) { return !IsAlive(holder.process).value_or(true); });
  const auto users = [this](const std::string& device) {
    return std::count_if(holders_.begin(), holders_.end(),
                         [&](const Holder& holder) { return holder.device == device; });
  };
  return *std::min_element(
      devices_.begin(), devices_.end(),
      [&](const std::string& a, const std::string& b) { return users(a) < users(b); });
}

void DevicePool::Hold(const ProcessIdentity& process, const std::string& device) {
  holders_.push_back({process, device});
}

void DevicePool::Adopt(const ProcessIdentity& process) {
  if (empty() || Knows(process)) return;
  Hold(process, DeviceOf(process.pid));
}

bool DevicePool::Knows(const ProcessIdentity& process) const {
  return std::any_of(holders_.begin(), holders_.end(),
                     [&](const Holder& holder) { return holder.process == process; });
}

}  // namespace lorsa::server
