// What the `lorsa` command takes from outside, so that a test can put its own in place.
#ifndef LORSA_CLIENT_CLI_ENVIRONMENT_H_
#define LORSA_CLIENT_CLI_ENVIRONMENT_H_

#include <cstdint>
#include <functional>
#include <istream>
#include <ostream>

#include "absl/time/time.h"
#include "base/file_system.h"

namespace lorsa::cli {

// A stream of text for people or for programs.
struct OutputStream {
  std::ostream& stream;
  bool is_terminal = false;
  // Columns, asked anew at each use: a window may be resized.
  std::function<int()> width = [] { return 80; };
};

struct Environment {
  OutputStream out;
  OutputStream err;
  std::istream& in;
  FileSystem& fs;
  std::function<absl::Time()> now;
  std::function<uint64_t()> random;
  // Sets what Ctrl-C does from now on, on a thread of its own; an empty function: end the process.
  std::function<void(std::function<void()>)> on_interrupt;
};

}  // namespace lorsa::cli

#endif  // LORSA_CLIENT_CLI_ENVIRONMENT_H_
