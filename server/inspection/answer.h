// What lorsa-inspect says to lorsad on its standard output, a line each:
//
//   reading NAME            before a file of the folder is opened
//   verdict CODE MESSAGE    last: the absl::StatusCode, and the error's sentence if it is one
//
// The child may be in the hands of the file that it parses: nothing that it says is trusted beyond
// its form, and no more of it is kept than a line.
#ifndef LORSA_SERVER_INSPECTION_ANSWER_H_
#define LORSA_SERVER_INSPECTION_ANSWER_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lorsa::server {

inline constexpr size_t kMaxAnswerLine = 4096;  // bytes

std::string FormatReading(absl::string_view name);
std::string FormatVerdict(const absl::Status& status);

// Takes the answer in pieces as they come.
class AnswerReader {
 public:
  // `on_file` is called with the name of each file that the child says it reads.
  explicit AnswerReader(std::function<void(const std::string& name)> on_file = [](const auto&) {})
      : on_file_(std::move(on_file)) {}

  // False once the answer has not its form; nothing is to be read then any more.
  bool Take(absl::string_view piece);

  // The file that was named last; empty if none was.
  const std::string& file() const { return file_; }
  // Once it was said.
  const std::optional<absl::Status>& verdict() const { return verdict_; }

 private:
  bool TakeLine(absl::string_view line);

  const std::function<void(const std::string& name)> on_file_;
  std::string line_;  // begun
  std::string file_;
  std::optional<absl::Status> verdict_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_INSPECTION_ANSWER_H_
