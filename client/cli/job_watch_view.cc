#include "client/cli/job_watch_view.h"

#include <array>
#include <optional>

#include "absl/strings/str_cat.h"
#include "client/cli/format.h"
#include "lorsa/client/progress.h"

namespace lorsa::cli {
namespace {

// Figures of an evaluation worth a place on its line (docs/metrics.md), where it has them.
constexpr std::array kEvaluationFigures = {"loss",   "fvu", "explained_variance", "mse",
                                           "cosine", "l0",  "dead_fraction"};

// How the values of a training job are shown. Three digits each, so that all of them fit 80 columns
// beside a short bar. Where the bar lacks room, the parts of the lowest rank go first.
struct Figure {
  const char* name;
  const char* label;
  const char* unit;
  int rank;
};
constexpr Figure kTrainingFigures[] = {{"loss", "loss ", "", 4},
                                       {"fvu", "FVU ", "", 5},
                                       {"l0", "L0 ", "", 1},
                                       {"tokens_per_second", "", "/s", 2}};

std::string TimeLeft(const v1::JobProgress& progress) {
  if (progress.has_remaining()) {
    return FormatTimeSpan(absl::Seconds(progress.remaining().seconds())) + " left";
  }
  const double speed = client::ProgressValue(progress, "tokens_per_second").value_or(0);
  if (speed <= 0) return "? left";
  const double tokens = client::ProgressValue(progress, "total_tokens").value_or(0) -
                        client::ProgressValue(progress, "tokens").value_or(0);
  return FormatTimeSpan(absl::Seconds(tokens / speed)) + " left";
}

void AddTrainingFigures(const v1::JobProgress& progress, double total_tokens,
                        std::vector<ProgressPart>& parts) {
  parts.push_back(
      {absl::StrCat(FormatShortCount(client::ProgressValue(progress, "tokens").value_or(0)), "/",
                    FormatShortCount(total_tokens), " tok"),
       3});
  if (progress.step() == 0) return;
  for (const Figure& figure : kTrainingFigures) {
    const std::optional<double> value = client::ProgressValue(progress, figure.name);
    if (!value.has_value()) continue;
    parts.push_back(
        {absl::StrCat(figure.label, FormatShortCount(*value), figure.unit), figure.rank});
  }
}

// Of a kind that this program does not know.
void AddValues(const v1::JobProgress& progress, std::vector<ProgressPart>& parts) {
  parts.push_back({absl::StrCat(progress.step(), "/", progress.total_steps()), 3});
  for (const v1::ProgressValue& value : progress.values()) {
    parts.push_back({absl::StrCat(Printable(value.name()), " ", FormatShortCount(value.value()),
                                  value.unit().empty() ? "" : " ", Printable(value.unit())),
                     1});
  }
}

}  // namespace

std::vector<ProgressPart> ProgressParts(const v1::JobProgress& progress) {
  std::vector<ProgressPart> parts;
  if (const auto total_tokens = client::ProgressValue(progress, "total_tokens")) {
    AddTrainingFigures(progress, *total_tokens, parts);
  } else {
    AddValues(progress, parts);
  }
  const bool training = progress.phase().empty() || progress.phase() == "training";
  parts.push_back({training ? TimeLeft(progress) : Printable(progress.phase()), 6});
  return parts;
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
  display_.Update(client::ProgressFraction(progress), ProgressParts(progress));
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
