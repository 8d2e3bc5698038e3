// Progress of a long command: a bar redrawn in place on a terminal, now and then a plain line
// elsewhere, and lines of text that stay.
#ifndef LORSA_CLIENT_CLI_PROGRESS_DISPLAY_H_
#define LORSA_CLIENT_CLI_PROGRESS_DISPLAY_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cli/environment.h"

namespace lorsa::cli {

// One figure beside the bar, in ASCII. Where there is not room for all, those with the lowest
// `keep` go first.
struct ProgressPart {
  std::string text;
  int keep = 0;
};

// " 45% [====>     ]  loss 1.2  …" in at most `width` columns: what fits of the parts, and a bar of
// what room is left. `fraction` is 0 to 1.
std::string RenderProgress(double fraction, const std::vector<ProgressPart>& parts, int width);

// The same in one plain line without a bar.
std::string RenderPlainProgress(double fraction, const std::vector<ProgressPart>& parts);

// One thread at a time.
class ProgressDisplay {
 public:
  // `out` and `now` as in Environment; both outlive the display.
  ProgressDisplay(const OutputStream& out, const std::function<absl::Time()>& now)
      : out_(out), now_(now) {}
  ~ProgressDisplay() { Clear(); }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  // Shows where things stand; calls that come faster than eyes follow (or, not on a terminal, than
  // every five seconds) are dropped.
  void Update(double fraction, const std::vector<ProgressPart>& parts);

  // A line that stays, above the bar.
  void PrintLine(absl::string_view line);

  // Takes the bar away.
  void Clear();

 private:
  void Draw();

  const OutputStream& out_;
  const std::function<absl::Time()>& now_;
  absl::Time last_update_ = absl::InfinitePast();
  double fraction_ = 0;
  std::vector<ProgressPart> parts_;
  bool visible_ = false;
};

}  // namespace lorsa::cli

#endif  // LORSA_CLIENT_CLI_PROGRESS_DISPLAY_H_
