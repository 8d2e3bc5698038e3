// The `lorsa` command: puts the real terminal, clock, disk and signals in place.
#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "client/cli/app.h"
#include "client/cli/interrupt_listener.h"

namespace {

constexpr int kDefaultColumns = 80;

int TerminalColumns(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefaultColumns;
  return size.ws_col;
}

lorsa::cli::OutputStream StreamOf(std::ostream& stream, int fd) {
  return {.stream = stream, .is_terminal = isatty(fd) == 1, .width = [fd] {
            return TerminalColumns(fd);
          }};
}

uint64_t Random() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

int main(int argc, char** argv) {
  // Outlives main: its thread ends with the process.
  auto& interrupts = *new lorsa::cli::InterruptListener();
  lorsa::PosixFileSystem fs;
  lorsa::cli::Environment env{
      .out = StreamOf(std::cout, STDOUT_FILENO),
      .err = StreamOf(std::cerr, STDERR_FILENO),
      .in = std::cin,
      .fs = fs,
      .now = absl::Now,
      .random = Random,
      .on_interrupt = [&](std::function<void()> f) { interrupts.SetHandler(std::move(f)); }};
  return lorsa::cli::RunLorsa(std::vector<std::string>(argv + 1, argv + argc), env);
}
