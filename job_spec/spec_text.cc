#include "job_spec/spec_text.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace lorsa {
namespace {

// Keeps the first error: the ones after it follow from it.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (message_.empty()) message_ = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

absl::Status CheckSize(absl::string_view origin, const std::string& text) {
  if (text.size() <= kMaxSpecBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(origin, ": a specification has at most ",
                                                 kMaxSpecBytes, " bytes, this one ", text.size()));
}

}  // namespace

absl::StatusOr<v1::TrainingSpec> ParseTrainingSpecText(absl::string_view origin,
                                                       const std::string& text) {
  LORSA_RETURN_IF_ERROR(CheckSize(origin, text));
  v1::TrainingSpec spec;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &spec)) {
    return absl::InvalidArgumentError(
        absl::StrCat(origin, ":", error.message(),
                     " (fields are described in proto/lorsa/v1/training_spec.proto)"));
  }
  return spec;
}

absl::StatusOr<v1::TrainingSpec> ParseTrainingSpecJson(absl::string_view origin,
                                                       const std::string& json) {
  LORSA_RETURN_IF_ERROR(CheckSize(origin, json));
  v1::TrainingSpec spec;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &spec);
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(origin, ": ", std::string(status.message()),
                     " (fields are described in proto/lorsa/v1/training_spec.proto)"));
  }
  return spec;
}

absl::StatusOr<v1::TrainingSpec> ReadTrainingSpec(FileSystem& fs, const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const std::string text, ReadFile(fs, path, kMaxSpecBytes));
  return absl::EndsWith(path, ".json") ? ParseTrainingSpecJson(path, text)
                                       : ParseTrainingSpecText(path, text);
}

}  // namespace lorsa
