// Reading of JSON documents that come from outside: bounded, strict, with errors that name the key.
#ifndef LORSA_BASE_JSON_FIELDS_H_
#define LORSA_BASE_JSON_FIELDS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lorsa {

// The JSON object that `text` is, in UTF-8, with at most `max_depth` objects and arrays in each
// other and no key twice in one object. DATA_LOSS saying why if it is not one.
absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text, int max_depth);

// Takes the members of one JSON object by name. The first error stays, later calls give defaults,
// and Finish reports it or a member that nobody asked for.
class JsonFields {
 public:
  // `value` outlives this; `where` is the path of the object, empty for the outermost.
  JsonFields(const nlohmann::json& value, std::string where);

  bool Has(const std::string& key) const;
  // The member, or nullptr if it is null; an absent one is an error.
  const nlohmann::json* Nullable(const std::string& key);
  const nlohmann::json& Required(const std::string& key);
  std::string Text(const std::string& key);  // at most 1,024 bytes
  int64_t Integer(const std::string& key, int64_t min, int64_t max);
  double Positive(const std::string& key);
  double NotNegative(const std::string& key);
  bool Boolean(const std::string& key);

  std::string Path(const std::string& key) const;
  void Fail(absl::string_view path, absl::string_view what);
  void Take(const absl::Status& status) { status_.Update(status); }
  // DATA_LOSS naming the first key that is missing, unknown, of the wrong type or out of bounds.
  absl::Status Finish();

 private:
  const nlohmann::json* Find(const std::string& key);

  const nlohmann::json& value_;
  const nlohmann::json null_;
  std::string where_;
  std::set<std::string> seen_;
  absl::Status status_;
};

}  // namespace lorsa

#endif  // LORSA_BASE_JSON_FIELDS_H_
