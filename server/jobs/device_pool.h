// Which worker sees which accelerator.
#ifndef LORSA_SERVER_JOBS_DEVICE_POOL_H_
#define LORSA_SERVER_JOBS_DEVICE_POOL_H_

#include <string>
#include <vector>

#include "base/process_identity.h"

namespace lorsa::server {

inline constexpr char kDeviceVariable[] = "CUDA_VISIBLE_DEVICES";

// Hands each new process the device that the fewest living ones have, of equal ones the first. One
// thread at a time.
class DevicePool {
 public:
  // As CUDA numbers or names them. None: there is nothing to hand out.
  explicit DevicePool(std::vector<std::string> devices) : devices_(std::move(devices)) {}

  bool empty() const { return devices_.empty(); }
  // The device for the next process; the pool is not empty.
  std::string Choose();
  // `process` has it until it ends.
  void Hold(const ProcessIdentity& process, const std::string& device);
  // A living process that an earlier server started: what it has stands in its environment.
  void Adopt(const ProcessIdentity& process);

 private:
  struct Holder {
    ProcessIdentity process;
    std::string device;
  };
  bool Knows(const ProcessIdentity& process) const;

  const std::vector<std::string> devices_;
  std::vector<Holder> holders_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_DEVICE_POOL_H_
