#include "job_spec/fixed_fields.h"

#include <algorithm>

namespace lorsa {
namespace {

using google::protobuf::FieldDescriptor;

// Whether taking this one field over from `changes` makes `spec` another.
bool Changes(const v1::TrainingSpec& spec, const v1::TrainingSpec& changes,
             const FieldDescriptor& field) {
  v1::TrainingSpec only = changes;
  std::vector<const FieldDescriptor*> set;
  only.GetReflection()->ListFields(only, &set);
  for (const FieldDescriptor* other : set) {
    if (other != &field) only.GetReflection()->ClearField(&only, other);
  }
  v1::TrainingSpec merged = spec;
  merged.MergeFrom(only);
  return merged.SerializeAsString() != spec.SerializeAsString();
}

}  // namespace

std::vector<std::string> ChangedFields(const v1::TrainingSpec& spec,
                                       const v1::TrainingSpec& changes,
                                       absl::Span<const absl::string_view> fixed) {
  std::vector<const FieldDescriptor*> set;
  changes.GetReflection()->ListFields(changes, &set);
  std::vector<std::string> changed;
  for (const FieldDescriptor* field : set) {
    const bool is_fixed = std::find(fixed.begin(), fixed.end(), field->name()) != fixed.end();
    if (is_fixed && Changes(spec, changes, *field)) changed.push_back(field->name());
  }
  return changed;
}

}  // namespace lorsa
