#include "server/services/known_fields.h"

#include <google/protobuf/descriptor.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/status_macros.h"

namespace lorsa::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

absl::Status CheckElements(const Message& message, const FieldDescriptor& field,
                           const std::string& path) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    LORSA_RETURN_IF_ERROR(CheckFieldsAreKnown(reflection.GetRepeatedMessage(message, &field, i),
                                              absl::StrCat(path, "[", i, "]")));
  }
  return absl::OkStatus();
}

}  // namespace

// The parser bounds the depth of a message, and with it this recursion.
absl::Status CheckFieldsAreKnown(const Message& message, const std::string& path) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (!reflection.GetUnknownFields(message).empty()) {
    return InvalidField(path,
                        "has fields that this server does not know; use the client of its version "
                        "or upgrade the server");
  }
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    // Entries of a map keep no unknown fields, and no map here holds messages.
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
    const std::string inner = absl::StrCat(path, ".", field->name());
    LORSA_RETURN_IF_ERROR(field->is_repeated()
                              ? CheckElements(message, *field, inner)
                              : CheckFieldsAreKnown(reflection.GetMessage(message, field), inner));
  }
  return absl::OkStatus();
}

}  // namespace lorsa::server
