#include "client/cli/progress_display.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/format.h"

namespace lorsa::cli {
namespace {

constexpr int kMinBar = 6;  // columns, brackets included
constexpr int kMaxBar = 42;
constexpr absl::Duration kRedrawInterval = absl::Milliseconds(100);
constexpr absl::Duration kLineInterval = absl::Seconds(5);
constexpr char kGap[] = "  ";
// Back to the first column, and erase to the end of the line (ECMA-48 EL).
constexpr char kEraseLine[] = "\r\x1b[K";

std::string RenderBar(double fraction, int columns) {
  const int inside = columns - 2;
  const int filled = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * inside);
  std::string bar(filled, '=');
  if (filled < inside) bar += '>';
  bar.resize(inside, ' ');
  return absl::StrCat("[", bar, "]");
}

int Columns(const std::vector<ProgressPart>& parts) {
  int columns = 0;
  for (const ProgressPart& part : parts) columns += 2 + static_cast<int>(part.text.size());
  return columns;
}

}  // namespace

std::string RenderProgress(double fraction, const std::vector<ProgressPart>& parts, int width) {
  std::string line = absl::StrFormat("%4s", FormatPercent(fraction));
  const int room = width - static_cast<int>(line.size()) - 1;
  if (room < kMinBar) return line.substr(0, std::max(width, 0));
  std::vector<ProgressPart> shown = parts;
  while (Columns(shown) + kMinBar > room) {
    shown.erase(std::min_element(shown.begin(), shown.end(),
                                 [](const auto& a, const auto& b) { return a.keep < b.keep; }));
  }
  absl::StrAppend(&line, " ", RenderBar(fraction, std::min(kMaxBar, room - Columns(shown))));
  for (const ProgressPart& part : shown) absl::StrAppend(&line, kGap, part.text);
  return line;
}

std::string RenderPlainProgress(double fraction, const std::vector<ProgressPart>& parts) {
  std::string line = FormatPercent(fraction);
  for (const ProgressPart& part : parts) absl::StrAppend(&line, kGap, part.text);
  return line;
}

void ProgressDisplay::Update(double fraction, const std::vector<ProgressPart>& parts) {
  const absl::Time now = now_();
  if (now - last_update_ < (out_.is_terminal ? kRedrawInterval : kLineInterval)) return;
  last_update_ = now;
  if (!out_.is_terminal) {
    out_.stream << RenderPlainProgress(fraction, parts) << std::endl;
    return;
  }
  fraction_ = fraction;
  parts_ = parts;
  visible_ = true;
  Draw();
}

void ProgressDisplay::PrintLine(absl::string_view line) {
  if (visible_) out_.stream << kEraseLine;
  out_.stream << Printable(line) << '\n';
  if (visible_) Draw();
  out_.stream.flush();
}

void ProgressDisplay::Clear() {
  if (visible_) out_.stream << kEraseLine << std::flush;
  visible_ = false;
}

void ProgressDisplay::Draw() {
  // The last column stays free: writing there makes some terminals wrap.
  const int width = out_.width() - 1;
  out_.stream << kEraseLine << RenderProgress(fraction_, parts_, width) << std::flush;
}

}  // namespace lorsa::cli
