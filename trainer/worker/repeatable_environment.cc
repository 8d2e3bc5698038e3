#include "trainer/worker/repeatable_environment.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"

namespace lorsa::worker {
namespace {

// What bounds, adapts or nests the threads of OpenMP. Where threads are bound, how they wait and
// how much stack they have changes no bit, and OMP_NUM_THREADS gives way to the specification.
constexpr absl::string_view kVariables[] = {"OMP_THREAD_LIMIT",      "OMP_DYNAMIC",
                                            "OMP_MAX_ACTIVE_LEVELS", "OMP_NESTED",
                                            "OMP_SCHEDULE",          "OMP_TEAMS_THREAD_LIMIT"};
// Of MKL and oneDNN: instruction sets, conditional bitwise reproducibility, threads, precision of
// products. TORCH_ALLOW_*: precision of products again.
constexpr absl::string_view kPrefixes[] = {"MKL_", "DNNL_", "ONEDNN_", "TORCH_ALLOW_"};
// glibc.cpu.hwcaps chooses among the mathematical functions.
constexpr absl::string_view kTunables = "GLIBC_TUNABLES";
constexpr absl::string_view kTunablesOfTheCpu = "glibc.cpu.";

std::vector<std::string> NamesThatChangeBits() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const absl::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == absl::string_view::npos) continue;
    const absl::string_view name = text.substr(0, equals);
    if (ChangesBits(name, text.substr(equals + 1))) names.emplace_back(name);
  }
  return names;
}

}  // namespace

bool ChangesBits(absl::string_view name, absl::string_view value) {
  if (name == kTunables) return absl::StrContains(value, kTunablesOfTheCpu);
  return std::find(std::begin(kVariables), std::end(kVariables), name) != std::end(kVariables) ||
         std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](absl::string_view prefix) { return absl::StartsWith(name, prefix); });
}

absl::Status ShedVariablesThatChangeBits(char** argv) {
  const std::vector<std::string> names = NamesThatChangeBits();
  if (names.empty()) return absl::OkStatus();
  spdlog::info(
      "event=environment_variables_dropped names={} message=\"a run repeats to the bit only "
      "without them\"",
      absl::StrJoin(names, ","));
  for (const std::string& name : names) unsetenv(name.c_str());
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  execv(program.c_str(), argv);
  return absl::ErrnoToStatus(errno, "this program cannot be executed again without the variables " +
                                        absl::StrJoin(names, ", ") + "; unset them");
}

}  // namespace lorsa::worker
