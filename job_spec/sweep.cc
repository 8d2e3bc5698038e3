#include "job_spec/sweep.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lorsa {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;
using Parameters = google::protobuf::RepeatedPtrField<v1::SweepParameter>;

constexpr int kMaxParameters = 8;
constexpr int kMaxValues = 256;
constexpr size_t kMaxValueBytes = 128;
constexpr size_t kMaxCombinations = 256;

// What does not parse is told by the violation alone, not on stderr.
class Silence final : public google::protobuf::io::ErrorCollector {
  void AddError(int, int, const std::string&) override {}
};

bool SetField(const FieldDescriptor& field, const std::string& value, v1::TrainingSpec& spec) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    spec.GetReflection()->SetString(&spec, &field, value);
    return true;
  }
  Silence silence;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&silence);
  return parser.ParseFieldValueFromString(value, &field, &spec);
}

// Checks the lists before anything is combined.
class Checker {
 public:
  explicit Checker(const v1::TrainingSpec& spec) : spec_(spec) {}

  std::vector<FieldViolation> Run(const Parameters& parameters) {
    if (parameters.empty() || parameters.size() > kMaxParameters) {
      Add("parameters", absl::StrCat("are ", parameters.size(), "; give 1 to ", kMaxParameters));
      return std::move(violations_);
    }
    size_t combinations = 1;
    for (int i = 0; i < parameters.size(); ++i) {
      CheckParameter(parameters[i], absl::StrCat("parameters[", i, "]"));
      combinations *= static_cast<size_t>(parameters[i].values_size());
      if (combinations > kMaxCombinations) {
        Add("parameters",
            absl::StrCat("have more than ", kMaxCombinations, " combinations; give fewer values"));
        break;
      }
    }
    return std::move(violations_);
  }

 private:
  void Add(std::string field, std::string description) {
    violations_.push_back({std::move(field), std::move(description)});
  }

  void CheckParameter(const v1::SweepParameter& parameter, const std::string& path) {
    const FieldDescriptor* const field =
        v1::TrainingSpec::descriptor()->FindFieldByName(parameter.field());
    if (field == nullptr || field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return Add(path + ".field", "is no field of TrainingSpec that holds a single value");
    }
    if (!fields_.insert(parameter.field()).second) {
      return Add(path + ".field", absl::StrCat("names ", parameter.field(), " a second time"));
    }
    std::vector<const FieldDescriptor*> set;
    spec_.GetReflection()->ListFields(spec_, &set);
    if (std::find(set.begin(), set.end(), field) != set.end()) {
      Add(path + ".field", absl::StrCat(parameter.field(),
                                        " is set in spec too; leave it out "
                                        "there"));
    }
    if (parameter.values_size() == 0 || parameter.values_size() > kMaxValues) {
      return Add(path + ".values",
                 absl::StrCat("are ", parameter.values_size(), "; give 1 to ", kMaxValues));
    }
    CheckValues(parameter, *field, path);
  }

  void CheckValues(const v1::SweepParameter& parameter, const FieldDescriptor& field,
                   const std::string& path) {
    std::set<std::string> seen;  // serialised, so that 1e-3 and 0.001 are the same
    for (int i = 0; i < parameter.values_size(); ++i) {
      v1::TrainingSpec spec;
      const std::string& value = parameter.values(i);
      if (value.size() > kMaxValueBytes || !SetField(field, value, spec)) {
        Add(absl::StrCat(path, ".values[", i, "]"),
            absl::StrCat("cannot be read as a value of ", parameter.field()));
      } else if (!seen.insert(spec.SerializeAsString()).second) {
        Add(absl::StrCat(path, ".values[", i, "]"), "is there twice");
      }
    }
  }

  const v1::TrainingSpec& spec_;
  std::set<std::string> fields_;
  std::vector<FieldViolation> violations_;
};

// Each of `combinations` with each value.
std::vector<SweepCombination> Multiply(const std::vector<SweepCombination>& combinations,
                                       const v1::SweepParameter& parameter) {
  const FieldDescriptor& field =
      *v1::TrainingSpec::descriptor()->FindFieldByName(parameter.field());
  std::vector<SweepCombination> more;
  for (const SweepCombination& combination : combinations) {
    for (const std::string& value : parameter.values()) {
      SweepCombination& next = more.emplace_back(combination);
      SetField(field, value, next.spec);
      absl::StrAppend(&next.values, next.values.empty() ? "" : ", ", parameter.field(), ": ",
                      value);
    }
  }
  return more;
}

}  // namespace

ExpandedSweep ExpandSweep(const v1::TrainingSpec& spec, const Parameters& parameters) {
  ExpandedSweep expanded{.violations = Checker(spec).Run(parameters)};
  if (!expanded.violations.empty()) return expanded;
  expanded.combinations = {{.spec = spec}};
  for (const v1::SweepParameter& parameter : parameters) {
    expanded.combinations = Multiply(expanded.combinations, parameter);
  }
  return expanded;
}

}  // namespace lorsa
