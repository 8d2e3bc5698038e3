// server/jobs/log_reader: what a worker printed. Readers get all of it in order, in pieces of valid
// UTF-8 within the bound.
#include <algorithm>
#include <string>

#include "base/utf8.h"
#include "server/jobs/log_reader.h"
#include "tests/fuzz/fuzz.h"

using namespace lorsa;  // NOLINT

namespace {

bool IsUtf8(const std::string& text) { return Utf8Prefix(text, text.size()) == text; }

size_t Lines(absl::string_view text) { return std::count(text.begin(), text.end(), '\n'); }

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr char kJob[] = "job";
  static PosixFileSystem fs;
  static const ScratchFolder folder;
  static const server::DataLayout layout(folder.path());
  const std::string path = layout.LogFile(kJob, 1);
  FUZZ_CHECK(fs.CreateDirectories(DirectoryOf(path)).ok());
  const absl::string_view printed = fuzz::AsText(data, size);
  fuzz::Write(path, printed);

  server::LogReader reader(fs, layout, kJob);
  std::string read;
  while (true) {
    const auto chunk = reader.Next(/*attempts=*/1, /*finished=*/true);
    FUZZ_CHECK(chunk.ok());
    if (!chunk->has_value()) break;
    const std::string& text = (*chunk)->text;
    FUZZ_CHECK(!text.empty() && text.size() <= server::kMaxLogChunkBytes && IsUtf8(text));
    read += text;
  }
  FUZZ_CHECK(read.size() == size && Lines(read) == Lines(printed));
  FUZZ_CHECK(!IsUtf8(std::string(printed)) || read == printed);

  const size_t bound = size / 2;
  const std::string tail = server::LogTail(fs, path, bound);
  FUZZ_CHECK(tail.size() <= bound && IsUtf8(tail));
  return 0;
}
