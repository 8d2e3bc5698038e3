// Two macros that pass an error on to the caller. Errors travel as absl::Status everywhere in this
// project; exceptions of foreign libraries stop at one wall each.
#ifndef LORSA_BASE_STATUS_MACROS_H_
#define LORSA_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define LORSA_RETURN_IF_ERROR(expression)                               \
  do {                                                                  \
    if (absl::Status lorsa_status = (expression); !lorsa_status.ok()) { \
      return lorsa_status;                                              \
    }                                                                   \
  } while (false)

#define LORSA_CONCAT_INNER(a, b) a##b
#define LORSA_CONCAT(a, b) LORSA_CONCAT_INNER(a, b)

// LORSA_ASSIGN_OR_RETURN(auto file, Open(path));
#define LORSA_ASSIGN_OR_RETURN(declaration, expression) \
  LORSA_ASSIGN_OR_RETURN_INNER(LORSA_CONCAT(lorsa_statusor_, __LINE__), declaration, expression)
#define LORSA_ASSIGN_OR_RETURN_INNER(statusor, declaration, expression) \
  auto statusor = (expression);                                         \
  if (!statusor.ok()) return std::move(statusor).status();              \
  declaration = *std::move(statusor)

#endif  // LORSA_BASE_STATUS_MACROS_H_
