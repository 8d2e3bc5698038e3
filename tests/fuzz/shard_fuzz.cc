// activation_store/shard_reader: HDF5 files through our reader. What is accepted can be read row by
// row within the bounds of the format.
//
// The HDF5 library itself crashes on some files and never ends on others, which is why the server
// lets a child process open a file first. So does this target: what the library does to the child
// is no finding, an error in our own code is.
#include <sanitizer/asan_interface.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "activation_store/manifest.h"
#include "activation_store/sequence_check.h"
#include "activation_store/shard_reader.h"
#include "tests/fuzz/fuzz.h"

using namespace lorsa;  // NOLINT

namespace {

constexpr int64_t kMaxRows = 4;
constexpr int64_t kMaxRowBytes = 1 << 16;  // larger ones cost time and reach no other code
constexpr rlim_t kMaxChildSeconds = 1;
constexpr int kLibraryAtFault = 99;

// The innermost frame with a name of either says whose error AddressSanitizer reports.
void EndQuietlyIfLibraryAtFault(const char* report) {
  const char* const library = std::strstr(report, "libhdf5");
  const char* const ours = std::strstr(report, "lorsa::");
  if (library != nullptr && (ours == nullptr || library < ours)) _exit(kLibraryAtFault);
}

bool LibrarySurvives(FileSystem& fs, const std::string& path) {
  const pid_t child = fork();
  FUZZ_CHECK(child >= 0);
  if (child == 0) {
    const rlimit seconds = {.rlim_cur = kMaxChildSeconds, .rlim_max = kMaxChildSeconds + 1};
    setrlimit(RLIMIT_CPU, &seconds);
    signal(SIGXCPU, SIG_DFL);
    __asan_set_error_report_callback(EndQuietlyIfLibraryAtFault);
    store::ShardReader::Open(fs, path).IgnoreError();
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) FUZZ_CHECK(errno == EINTR);  // libFuzzer's clock rings
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  const bool hung =
      WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL);
  FUZZ_CHECK(hung || (WIFEXITED(status) && WEXITSTATUS(status) == kLibraryAtFault));
  return false;
}

void ReadRows(const store::ShardReader::Opened& opened) {
  const store::ShardShape& shape = opened.shard->shape();
  const int64_t bytes = shape.context * shape.d_model * store::ElementSize(shape.element_type);
  if (bytes > kMaxRowBytes) return;
  store::Sequence sequence;
  for (int64_t row = 0; row < std::min(shape.sequences, kMaxRows); ++row) {
    const absl::Status status = opened.shard->Read(*opened.file, row, sequence);
    FUZZ_CHECK(status.ok() || absl::IsDataLoss(status));
    if (!status.ok()) continue;
    FUZZ_CHECK(sequence.mhsa_input.size() == static_cast<size_t>(bytes));
    const auto facts = store::ExamineSequence(sequence, shape);
    FUZZ_CHECK(facts.ok() || absl::IsDataLoss(facts.status()));
  }
}

}  // namespace

// The HDF5 library allocates what a damaged file says, which fails as it would without a sanitizer
// (here from 1,000 MB on), and leaks a little on its way out.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1:max_allocation_size_mb=1000:detect_leaks=0";
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static PosixFileSystem fs;
  static fuzz::InputFile file("shard-00000.h5");
  const std::string& path = file.Hold(fuzz::AsText(data, size));
  if (!LibrarySurvives(fs, path)) return 0;
  const auto opened = store::ShardReader::Open(fs, path);
  if (!opened.ok()) {
    FUZZ_CHECK(absl::IsDataLoss(opened.status()));
    return 0;
  }
  if (opened->shard->set_attribute().has_value()) {
    store::ParseDescription(*opened->shard->set_attribute()).IgnoreError();
  }
  ReadRows(*opened);
  return 0;
}
