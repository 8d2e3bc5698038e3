#include "base/json_fields.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lorsa {
namespace {

using nlohmann::json;

constexpr size_t kMaxTextBytes = 1024;
constexpr size_t kMaxShownBytes = 64;  // of a key, in an error

// Whether objects and arrays stand more than `max_depth` deep in each other. Told from the text,
// because the parser takes memory for each level that is opened.
bool IsDeeper(absl::string_view text, int max_depth) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\') ++i;  // and what it escapes
    if (in_string) continue;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth > max_depth) return true;
  }
  return false;
}

// Finds a key that comes twice in one object, of which readers would take different values.
class DuplicateKeys {
 public:
  // As nlohmann's parser calls back; `depth` is that of what holds the event.
  void See(int depth, json::parse_event_t event, const json& parsed) {
    if (event == json::parse_event_t::object_start) {
      keys_.resize(static_cast<size_t>(depth) + 1);
      keys_.back().clear();
    }
    if (event == json::parse_event_t::key && found_.empty()) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_[static_cast<size_t>(depth) - 1].insert(key).second) {
        found_ = key.empty() ? "(empty)" : key.substr(0, kMaxShownBytes);
      }
    }
  }
  const std::string& found() const { return found_; }

 private:
  std::vector<std::set<std::string>> keys_;  // of the objects that are open, outermost first
  std::string found_;
};

}  // namespace

absl::StatusOr<json> ParseJsonObject(absl::string_view text, int max_depth) {
  if (IsDeeper(text, max_depth)) {
    return absl::DataLossError(absl::StrCat("it nests JSON more than ", max_depth, " levels deep"));
  }
  DuplicateKeys duplicates;
  json value = json::parse(
      text.begin(), text.end(),
      [&](int depth, json::parse_event_t event, json& parsed) {
        duplicates.See(depth, event, parsed);
        return true;
      },
      /*allow_exceptions=*/false);
  if (value.is_discarded() || !value.is_object()) {
    return absl::DataLossError("it is not a JSON object");
  }
  if (!duplicates.found().empty()) {
    return absl::DataLossError(absl::StrCat("the key '", duplicates.found(), "' comes twice"));
  }
  return value;
}

JsonFields::JsonFields(const json& value, std::string where)
    : value_(value), where_(std::move(where)) {
  if (!value_.is_object()) Fail(where_, "is not an object");
}

bool JsonFields::Has(const std::string& key) const {
  return value_.is_object() && value_.contains(key);
}

const json* JsonFields::Nullable(const std::string& key) {
  const json* member = Find(key);
  return member == nullptr || member->is_null() ? nullptr : member;
}

const json& JsonFields::Required(const std::string& key) {
  const json* member = Find(key);
  return member == nullptr ? null_ : *member;
}

std::string JsonFields::Text(const std::string& key) {
  const json& member = Required(key);
  if (!member.is_string() || member.get_ref<const std::string&>().size() > kMaxTextBytes) {
    Fail(Path(key), absl::StrCat("is not a text of at most ", kMaxTextBytes, " bytes"));
    return "";
  }
  return member.get<std::string>();
}

int64_t JsonFields::Integer(const std::string& key, int64_t min, int64_t max) {
  const json& member = Required(key);
  // Compared as unsigned first: get<int64_t> would wrap what is beyond 2^63.
  const bool fits = member.is_number_unsigned()
                        ? member.get<uint64_t>() <= static_cast<uint64_t>(max)
                        : member.is_number_integer();
  if (!fits || member.get<int64_t>() < min || member.get<int64_t>() > max) {
    Fail(Path(key), absl::StrCat("is not a whole number from ", min, " to ", max));
    return min;
  }
  return member.get<int64_t>();
}

double JsonFields::Positive(const std::string& key) {
  const double value = NotNegative(key);
  if (value <= 0) Fail(Path(key), "is not a number above 0");
  return value;
}

double JsonFields::NotNegative(const std::string& key) {
  const json& member = Required(key);
  const double value = member.is_number() ? member.get<double>() : -1;
  if (!std::isfinite(value) || value < 0) Fail(Path(key), "is not a number of at least 0");
  return value;
}

bool JsonFields::Boolean(const std::string& key) {
  const json& member = Required(key);
  if (!member.is_boolean()) Fail(Path(key), "is not true or false");
  return member.is_boolean() && member.get<bool>();
}

std::string JsonFields::Path(const std::string& key) const {
  return where_.empty() ? key : absl::StrCat(where_, ".", key);
}

void JsonFields::Fail(absl::string_view path, absl::string_view what) {
  if (status_.ok()) status_ = absl::DataLossError(absl::StrCat("'", path, "' ", what));
}

absl::Status JsonFields::Finish() {
  if (!status_.ok()) return status_;
  for (const auto& [key, member] : value_.items()) {
    if (!seen_.contains(key)) Fail(Path(key), "is not a key of this format");
  }
  return status_;
}

const json* JsonFields::Find(const std::string& key) {
  seen_.insert(key);
  if (Has(key)) return &value_[key];
  Fail(Path(key), "is missing");
  return nullptr;
}

}  // namespace lorsa
