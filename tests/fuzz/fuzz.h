// What the fuzz targets share. A target reads any bytes without crashing, and holds what it accepts
// against a property of the parser: libFuzzer calls LLVMFuzzerTestOneInput in one thread, again and
// again, and keeps inputs that reach new code.
#ifndef LORSA_TESTS_FUZZ_FUZZ_H_
#define LORSA_TESTS_FUZZ_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/string_view.h"
#include "base/scratch_folder.h"

// Ends the run, as a crash does, if the property does not hold.
#define FUZZ_CHECK(condition) \
  ::lorsa::fuzz::Check(static_cast<bool>(condition), #condition, __FILE__, __LINE__)

namespace lorsa::fuzz {

inline void Check(bool holds, const char* condition, const char* file, int line) {
  if (holds) return;
  std::fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
  std::abort();
}

inline absl::string_view AsText(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

inline void Write(const std::string& path, absl::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// A file that holds the input of this call, for parsers that open one.
class InputFile {
 public:
  explicit InputFile(const std::string& name) : path_(folder_.Path(name)) {}

  const std::string& Hold(absl::string_view bytes) {
    Write(path_, bytes);
    return path_;
  }
  const std::string& folder() const { return folder_.path(); }

 private:
  ScratchFolder folder_;
  std::string path_;
};

}  // namespace lorsa::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

#endif  // LORSA_TESTS_FUZZ_FUZZ_H_
