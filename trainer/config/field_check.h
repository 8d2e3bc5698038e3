// Range checks of configuration fields, with messages that name the field and its bounds.
#ifndef LORSA_TRAINER_CONFIG_FIELD_CHECK_H_
#define LORSA_TRAINER_CONFIG_FIELD_CHECK_H_

#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace lorsa::trainer {

inline absl::Status CheckWhole(absl::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; give a whole number from ", low, " to ", high, "."));
}

// `low` itself is refused.
inline absl::Status CheckAbove(absl::string_view field, double value, double low, double high) {
  if (std::isfinite(value) && value > low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, " is ", value, "; give a number greater than ", low, " and at most ", high, "."));
}

inline absl::Status CheckReal(absl::string_view field, double value, double low, double high) {
  if (std::isfinite(value) && value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; give a number from ", low, " to ", high, "."));
}

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_CONFIG_FIELD_CHECK_H_
