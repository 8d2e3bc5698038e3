// What is wrong with one field of a message that a client sent.
#ifndef LORSA_BASE_FIELD_VIOLATION_H_
#define LORSA_BASE_FIELD_VIOLATION_H_

#include <string>

namespace lorsa {

struct FieldViolation {
  std::string field;        // a path of proto field names: "top_k", "spec.rope.rotary_dim"
  std::string description;  // a sentence that says what to do
};

}  // namespace lorsa

#endif  // LORSA_BASE_FIELD_VIOLATION_H_
