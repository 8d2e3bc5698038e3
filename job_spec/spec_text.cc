#include "job_spec/spec_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "google/protobuf/util/json_util.h"
#include "job_spec/textproto.h"

namespace lorsa {
namespace {

constexpr size_t kMaxSpecBytes = 1 << 20;

absl::StatusOr<std::string> ReadStream(std::istream& in) {
  std::string text(kMaxSpecBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMaxSpecBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the specification on standard input is longer than ", kMaxSpecBytes,
                     " bytes: this cannot be a job specification"));
  }
  return text;
}

// A word that is not even part of a specification is taken for the name of a missing file.
bool IsFile(const std::string& word, FileSystem& fs) {
  if (!absl::StrContains(word, ":") && !absl::StrContains(word, "{")) return true;
  return fs.Exists(word).value_or(false);
}

absl::StatusOr<SpecText> FromFile(const std::string& name, FileSystem& fs) {
  auto text = ReadFile(fs, name, kMaxSpecBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(absl::StrCat(
        "there is no file ", name, ": name a file with the specification, '-' to read it from ",
        "standard input, or write it out, such as 'activation_set: \"demo\" top_k: 64'"));
  }
  if (!text.ok()) return text.status();
  return SpecText{.source = name, .text = *std::move(text), .json = absl::EndsWith(name, ".json")};
}

}  // namespace

bool IsJson(absl::string_view text) {
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{");
}

absl::StatusOr<SpecText> ReadSpecText(const std::vector<std::string>& words, std::istream& in,
                                      FileSystem& fs) {
  SpecText spec{.source = "the command line", .text = absl::StrJoin(words, " ")};
  if (words.size() == 1 && words[0] == "-") {
    spec.source = "standard input";
    LORSA_ASSIGN_OR_RETURN(spec.text, ReadStream(in));
  } else if (words.size() == 1 && IsFile(words[0], fs)) {
    LORSA_ASSIGN_OR_RETURN(spec, FromFile(words[0], fs));
  }
  spec.json = spec.json || IsJson(spec.text);
  return spec;
}

absl::StatusOr<v1::TrainingSpec> ParseSpec(const SpecText& spec) {
  v1::TrainingSpec parsed;
  if (spec.json) {
    const auto status = google::protobuf::util::JsonStringToMessage(spec.text, &parsed);
    if (status.ok()) return parsed;
    return absl::InvalidArgumentError(
        absl::StrCat(spec.source, ": ", std::string(status.message())));
  }
  LORSA_RETURN_IF_ERROR(ParseTextproto(spec.source, spec.text, parsed));
  return parsed;
}

}  // namespace lorsa
