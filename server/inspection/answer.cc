#include "server/inspection/answer.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace lorsa::server {
namespace {

constexpr absl::string_view kReading = "reading ";
constexpr absl::string_view kVerdict = "verdict ";

// Without line breaks, which names of files may have, and no longer than a line may be.
std::string OneLine(absl::string_view text) {
  return absl::StrReplaceAll(text.substr(0, kMaxAnswerLine / 2), {{"\n", "?"}});
}

// What an inspection may end with; any other code would say something of the machine.
bool IsVerdict(int code) {
  switch (static_cast<absl::StatusCode>(code)) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string FormatReading(absl::string_view name) {
  return absl::StrCat(kReading, OneLine(name), "\n");
}

std::string FormatVerdict(const absl::Status& status) {
  return absl::StrCat(kVerdict, status.raw_code(), " ", OneLine(status.message()), "\n");
}

bool AnswerReader::Take(absl::string_view piece) {
  while (!piece.empty()) {
    const size_t end = piece.find('\n');
    absl::StrAppend(&line_, piece.substr(0, end));
    if (line_.size() > kMaxAnswerLine) return false;
    if (end == absl::string_view::npos) return true;
    if (!TakeLine(line_)) return false;
    line_.clear();
    piece.remove_prefix(end + 1);
  }
  return true;
}

bool AnswerReader::TakeLine(absl::string_view line) {
  if (verdict_.has_value()) return false;
  if (absl::ConsumePrefix(&line, kReading)) {
    file_ = std::string(line);
    on_file_(file_);
    return true;
  }
  if (!absl::ConsumePrefix(&line, kVerdict)) return false;
  const size_t space = line.find(' ');
  int code = 0;
  if (space == absl::string_view::npos || !absl::SimpleAtoi(line.substr(0, space), &code) ||
      !IsVerdict(code)) {
    return false;
  }
  verdict_ = absl::Status(static_cast<absl::StatusCode>(code), line.substr(space + 1));
  return true;
}

}  // namespace lorsa::server
