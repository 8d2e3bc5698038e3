#include "client/cli/format.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace lorsa::cli {
namespace {

// `value` scaled down by 1,000s to three digits, and the number of times.
struct Scaled {
  std::string digits;
  size_t unit;
};

Scaled ScaleDown(double value, size_t max_unit) {
  size_t unit = 0;
  // 999.5 and more would be printed as 1e+03.
  while (std::abs(value) >= 999.5 && unit < max_unit) {
    value /= 1000;
    ++unit;
  }
  if (std::abs(value) >= 999.5) return {absl::StrFormat("%.0f", value), unit};
  return {absl::StrFormat("%.3g", value), unit};
}

// A control character of ASCII, or of C1 in UTF-8 (U+0080 to U+009F), at text[i].
bool IsControl(absl::string_view text, size_t i) {
  const auto c = static_cast<unsigned char>(text[i]);
  if (c == '\n' || c == '\t') return false;
  if (c < 0x20 || c == 0x7f) return true;
  if (c != 0xc2 || i + 1 == text.size()) return false;
  const auto next = static_cast<unsigned char>(text[i + 1]);
  return next >= 0x80 && next < 0xa0;
}

}  // namespace

std::string FormatCount(int64_t count) {
  std::string text = absl::StrCat(count);
  const int first_digit = count < 0 ? 1 : 0;
  for (int i = static_cast<int>(text.size()) - 3; i > first_digit; i -= 3) text.insert(i, 1, ',');
  return text;
}

std::string FormatShortCount(double count) {
  static constexpr std::array kUnits = {"", "k", "M", "G", "T", "P"};
  const Scaled scaled = ScaleDown(count, kUnits.size() - 1);
  return scaled.digits + kUnits[scaled.unit];
}

std::string FormatBytes(int64_t bytes) {
  static constexpr std::array kUnits = {" B", " kB", " MB", " GB", " TB", " PB"};
  const Scaled scaled = ScaleDown(static_cast<double>(bytes), kUnits.size() - 1);
  return scaled.digits + kUnits[scaled.unit];
}

std::string FormatTimeSpan(absl::Duration d) {
  if (d == absl::InfiniteDuration()) return "?";
  const int64_t seconds = std::max<int64_t>(0, absl::ToInt64Seconds(d));
  if (seconds < 60) return absl::StrFormat("%ds", seconds);
  if (seconds < 3600) return absl::StrFormat("%dm%02ds", seconds / 60, seconds % 60);
  if (seconds < 86400) return absl::StrFormat("%dh%02dm", seconds / 3600, seconds / 60 % 60);
  return absl::StrFormat("%dd%02dh", seconds / 86400, seconds / 3600 % 24);
}

std::string FormatNumber(double value) { return absl::StrFormat("%.4g", value); }

std::string FormatPercent(double fraction) {
  return absl::StrFormat("%d%%", static_cast<int>(std::clamp(fraction, 0.0, 1.0) * 100));
}

std::string FormatTime(const google::protobuf::Timestamp& time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%SZ", absl::FromUnixSeconds(time.seconds()),
                          absl::UTCTimeZone());
}

std::string FormatState(v1::JobState state) {
  if (state == v1::JOB_STATE_UNSPECIFIED) return "-";
  return std::string(absl::StripPrefix(v1::JobState_Name(state), "JOB_STATE_"));
}

std::string IdOf(absl::string_view name) {
  const size_t slash = name.rfind('/');
  return std::string(slash == absl::string_view::npos ? name : name.substr(slash + 1));
}

std::string Printable(absl::string_view text) {
  std::string printable;
  printable.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (!IsControl(text, i)) {
      printable += text[i];
      continue;
    }
    printable += '?';
    if (static_cast<unsigned char>(text[i]) == 0xc2) ++i;
  }
  return printable;
}

}  // namespace lorsa::cli
