#include "job_spec/textproto.h"

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace lorsa {
namespace {

constexpr int kMaxDepth = 16;  // of nested messages; a specification has three

class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  // Line and column count from 0.
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

absl::Status ParseTextproto(const std::string& source, const std::string& text,
                            google::protobuf::Message& message) {
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kMaxDepth);
  if (parser.ParseFromString(text, &message)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(source, ":", error.text()));
}

}  // namespace lorsa
