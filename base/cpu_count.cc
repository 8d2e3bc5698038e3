#include "base/cpu_count.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/control_groups.h"

namespace lorsa {
namespace {

constexpr int kMaxCpus = 1 << 16;
constexpr int64_t kNoQuota = std::numeric_limits<int64_t>::max();

// CPUs on which this thread may run, among the first kMaxCpus.
int64_t CpusOfAffinity() {
  std::vector<cpu_set_t> set(kMaxCpus / CPU_SETSIZE);
  const size_t bytes = set.size() * sizeof(cpu_set_t);
  if (sched_getaffinity(0, bytes, set.data()) != 0) return kNoQuota;
  return CPU_COUNT_S(bytes, set.data());
}

// Whole CPUs that a quota of microseconds in each period pays for.
int64_t WholeCpus(std::optional<int64_t> quota, std::optional<int64_t> period) {
  if (!quota || !period || *quota < 0 || *period <= 0) return kNoQuota;
  return *quota / *period;
}

// cpu.max is "QUOTA PERIOD", or "max PERIOD" for none.
int64_t QuotaOfV2(const std::string& folder) {
  const std::string text = ReadKernelFile(folder + "/cpu.max").value_or("");
  const std::vector<absl::string_view> words =
      absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  int64_t quota = 0, period = 0;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &quota) ||
      !absl::SimpleAtoi(words[1], &period)) {
    return kNoQuota;
  }
  return WholeCpus(quota, period);
}

int64_t QuotaOfV1(const std::string& folder) {  // a quota of -1 is none
  return WholeCpus(ReadKernelNumber(folder + "/cpu.cfs_quota_us"),
                   ReadKernelNumber(folder + "/cpu.cfs_period_us"));
}

// The least of the groups' and of those above them.
int64_t CpusOfQuota(const std::string& root) {
  int64_t cpus = kNoQuota;
  for (const ControlGroup& group : ControlGroups(root, "cpu")) {
    for (const std::string& folder : FoldersOf(group)) {
      cpus = std::min(cpus, group.is_v2 ? QuotaOfV2(folder) : QuotaOfV1(folder));
    }
  }
  return cpus;
}

}  // namespace

int UsableCpus(const std::string& root) {
  const int64_t fewest =
      std::min({int64_t{sysconf(_SC_NPROCESSORS_ONLN)}, CpusOfAffinity(), CpusOfQuota(root)});
  return static_cast<int>(std::max<int64_t>(fewest, 1));
}

}  // namespace lorsa
