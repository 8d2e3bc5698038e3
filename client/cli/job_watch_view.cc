#include "client/cli/job_watch_view.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "client/cli/format.h"

namespace lorsa::cli {
namespace {

// Figures of an evaluation worth a place on its line (docs/metrics.md), where it has them.
constexpr std::array kEvaluationFigures = {"loss",   "fvu", "explained_variance", "mse",
                                           "cosine", "l0",  "dead_fraction"};

std::string TimeLeft(const v1::JobProgress& progress) {
  if (progress.has_remaining_seconds()) {
    return FormatTimeSpan(absl::Seconds(progress.remaining_seconds())) + " left";
  }
  if (progress.tokens_per_second() <= 0) return "? left";
  const auto tokens = static_cast<double>(progress.total_tokens() - progress.tokens());
  return FormatTimeSpan(absl::Seconds(tokens / progress.tokens_per_second())) + " left";
}

}  // namespace

// Three digits each, so that all of them fit 80 columns beside a short bar.
std::vector<ProgressPart> ProgressParts(const v1::JobProgress& progress) {
  std::vector<ProgressPart> parts;
  parts.push_back(
      {absl::StrCat(FormatShortCount(static_cast<double>(progress.tokens())), "/",
                    FormatShortCount(static_cast<double>(progress.total_tokens())), " tok"),
       3});
  if (progress.step() > 0) {
    parts.push_back({"loss " + FormatShortCount(progress.loss()), 4});
    if (progress.has_fvu()) parts.push_back({"FVU " + FormatShortCount(progress.fvu()), 5});
    parts.push_back({"L0 " + FormatShortCount(progress.l0()), 1});
    parts.push_back({FormatShortCount(progress.tokens_per_second()) + "/s", 2});
  }
  const bool training = progress.phase().empty() || progress.phase() == "training";
  parts.push_back({training ? TimeLeft(progress) : Printable(progress.phase()), 6});
  return parts;
}

double ProgressFraction(const v1::JobProgress& progress) {
  if (progress.total_tokens() <= 0) return 0;
  return static_cast<double>(progress.tokens()) / static_cast<double>(progress.total_tokens());
}

std::string EventLine(const v1::JobEvent& event) {
  std::string what = event.reason();
  if (event.from_state() != event.to_state()) {
    what = FormatState(event.to_state());
    if (event.from_state() != v1::JOB_STATE_UNSPECIFIED) {
      what = absl::StrCat(FormatState(event.from_state()), " -> ", what);
    }
  }
  std::string line = absl::StrCat(FormatTime(event.time()), "  ", what);
  if (!event.message().empty()) absl::StrAppend(&line, "  ", event.message());
  return line;
}

std::string EvaluationLine(const v1::MetricPoint& point) {
  std::string line =
      absl::StrCat(FormatTime(point.time()), "  EVALUATION  step ", point.step(), "  tokens ",
                   FormatShortCount(static_cast<double>(point.tokens())));
  for (const char* name : kEvaluationFigures) {
    const auto value = point.values().find(name);
    if (value == point.values().end()) continue;
    absl::StrAppend(&line, "  ", name, " ", FormatNumber(value->second));
  }
  return line;
}

void JobWatchView::ShowProgress(const v1::JobProgress& progress) {
  display_.Update(ProgressFraction(progress), ProgressParts(progress));
}

void JobWatchView::ShowOutage(const absl::Status& why) {
  if (!connected_) return;
  connected_ = false;
  display_.PrintLine(absl::StrCat("Connection lost, trying again: ", why.message()));
}

void JobWatchView::ShowConnected() {
  if (!connected_) display_.PrintLine("Connected again.");
  connected_ = true;
}

void JobWatchView::ShowEnd(absl::string_view job_id, v1::JobState state) {
  display_.Clear();
  if (state == v1::JOB_STATE_SUCCEEDED) {
    display_.PrintLine(absl::StrCat("Fetch the best checkpoint with: lorsa checkpoint download ",
                                    job_id, " --out ", job_id));
  } else if (state == v1::JOB_STATE_FAILED) {
    display_.PrintLine(absl::StrCat("See what the worker said with: lorsa job logs ", job_id));
  }
}

}  // namespace lorsa::cli
