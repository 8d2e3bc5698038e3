#include "client/cli/session.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "google/protobuf/util/json_util.h"

namespace lorsa::cli {

CLI::App& AddCommand(CLI::App& parent, const std::string& name, const std::string& description,
                     const std::string& example, Action* chosen, Action action) {
  CLI::App& command = *parent.add_subcommand(name, description);
  command.footer("Example: " + example);
  command.callback([chosen, action = std::move(action)] { *chosen = action; });
  return command;
}

void PrintJson(std::ostream& out, const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  // Fails only for google.protobuf.Any of unknown types, which the API does not use.
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  out << (status.ok() ? json : "{}") << std::endl;
}

absl::StatusOr<std::string> ResourceName(const std::string& collection, const std::string& text) {
  const std::string name =
      absl::StrContains(text, "/") ? text : absl::StrCat(collection, "/", text);
  LORSA_RETURN_IF_ERROR(IdFromName(collection, name).status());
  return name;
}

}  // namespace lorsa::cli
