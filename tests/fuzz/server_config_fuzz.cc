// server/lorsad_options: the configuration file of lorsad and the addresses in it.
#include "server/lorsad_options.h"
#include "tests/fuzz/fuzz.h"

using namespace lorsa;  // NOLINT

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static PosixFileSystem fs;
  static fuzz::InputFile file("lorsad.textproto");
  const absl::string_view text = fuzz::AsText(data, size);
  const auto address = server::ParseListenAddress(text);
  if (address.ok()) {
    FUZZ_CHECK(!address->host.empty() && address->port >= 0 && address->port <= 65535);
  }
  const auto options = server::ReadConfig(fs, file.Hold(text));
  if (!options.ok()) {
    FUZZ_CHECK(absl::IsInvalidArgument(options.status()));
    return 0;
  }
  const absl::Status status = server::CheckOptions(fs, *options);
  FUZZ_CHECK(status.ok() || absl::IsInvalidArgument(status));
  if (status.ok()) FUZZ_CHECK(server::ParseListenAddress(options->listen).ok());
  return 0;
}
