#include "client/cli/byte_progress.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/format.h"

namespace lorsa::cli {

ByteProgress::ByteProgress(Session& session)
    : quiet_(session.json),
      now_(session.env.now),
      start_(session.env.now()),
      display_(session.env.err, session.env.now) {}

void ByteProgress::Show(int64_t done, int64_t total) {
  if (first_ < 0) first_ = done;
  if (quiet_ || total <= 0) return;
  const double seconds = absl::ToDoubleSeconds(now_() - start_);
  std::vector<ProgressPart> parts = {
      {absl::StrCat(FormatBytes(done), " of ", FormatBytes(total)), 2}};
  if (seconds > 0 && done > first_) {
    const double rate = static_cast<double>(done - first_) / seconds;
    parts.push_back({absl::StrCat(FormatBytes(static_cast<int64_t>(rate)), "/s"), 1});
    parts.push_back(
        {FormatTimeSpan(absl::Seconds(static_cast<double>(total - done) / rate)) + " left", 3});
  }
  display_.Update(static_cast<double>(done) / static_cast<double>(total), parts);
}

void ByteProgress::ShowOutage(const absl::Status& why) {
  if (!quiet_) display_.PrintLine(absl::StrCat("Connecting again: ", why.message()));
}

}  // namespace lorsa::cli
