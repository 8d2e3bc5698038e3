#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "client/cli/byte_progress.h"
#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/table.h"
#include "lorsa/client/set_upload.h"

namespace lorsa::cli {
namespace {

std::string FormatElementType(v1::ElementType type) {
  return absl::AsciiStrToLower(absl::StripPrefix(v1::ElementType_Name(type), "ELEMENT_TYPE_"));
}

std::string FormatState(v1::ActivationSetState state) {
  return std::string(
      absl::StripPrefix(v1::ActivationSetState_Name(state), "ACTIVATION_SET_STATE_"));
}

// How many, and where the largest ones are.
std::string FormatOutliers(const v1::ActivationSet& set) {
  const v1::OutlierTargets& outliers = set.outlier_targets();
  const auto format = [](std::string* text, const v1::OutlierTarget& target) {
    absl::StrAppend(text, "sequence ", target.sequence(), " position ", target.position(),
                    " (norm ", FormatNumber(target.norm()), ")");
  };
  const bool more = outliers.count() > outliers.largest_size();
  return absl::StrCat(FormatCount(outliers.count()), outliers.count() == 1 ? " target" : " targets",
                      " above 10 times the mean norm: ",
                      absl::StrJoin(outliers.largest(), ", ", format), more ? ", …" : "");
}

void PrintSet(std::ostream& out, const v1::ActivationSet& set) {
  Table table;
  table.AddRow({"set", IdOf(set.name())});
  table.AddRow({"folder", set.path()});
  table.AddRow({"model", absl::StrCat(set.model(), " ", set.model_revision())});
  table.AddRow({"layer", absl::StrCat(set.layer(), " (", set.hook_convention(), ")")});
  if (set.has_attention()) {
    const v1::AttentionGeometry& attention = set.attention();
    table.AddRow(
        {"attention",
         absl::StrCat(attention.n_heads(), " heads, ", attention.n_kv_heads(), " KV heads, d_head ",
                      attention.d_head(), attention.has_rope() ? ", rope" : "",
                      attention.has_qk_norm() ? ", QK norm" : "", ", weights ",
                      set.has_attention_weights() ? "included" : "not included")});
  }
  table.AddRow({"sequences", absl::StrCat(FormatCount(set.sequences()), " of ", set.context(),
                                          " positions, the last ",
                                          FormatCount(set.held_out_sequences()), " held out")});
  table.AddRow({"targets", FormatCount(set.unmasked_tokens())});
  table.AddRow({"activations",
                absl::StrCat("d_model ", set.d_model(), ", ", FormatElementType(set.element_type()),
                             ", mean norm ", FormatNumber(set.mean_input_norm()), " in, ",
                             FormatNumber(set.mean_output_norm()), " out")});
  table.AddRow(
      {"size", absl::StrCat(FormatBytes(set.size_bytes()), " in ", set.shards(), " shards")});
  table.AddRow({"produced", absl::StrCat(FormatTime(set.produce_time()), " by ", set.producer())});
  table.AddRow({"registered", FormatTime(set.register_time())});
  table.AddRow({"verified", FormatTime(set.verify_time())});
  table.AddRow({"state", FormatState(set.state())});
  for (const std::string& problem : set.problems()) {
    table.AddRow({"problem", Printable(problem)});
  }
  if (set.outlier_targets().count() > 0) table.AddRow({"warning", FormatOutliers(set)});
  table.AddRow({"sha256", set.manifest_sha256()});
  table.Print(out);
}

absl::StatusOr<int> Register(Session& session, const std::string& id, const std::string& path) {
  LORSA_RETURN_IF_ERROR(ValidateId("activation set id", id));
  v1::RegisterActivationSetRequest request;
  request.set_activation_set_id(id);
  request.set_path(path);
  v1::ActivationSet set;
  ByteProgress progress(session);
  LORSA_RETURN_IF_ERROR(
      session.client.Stream(&v1::ActivationService::Stub::RegisterActivationSet, request,
                            [&](const v1::RegisterActivationSetResponse& response) {
                              progress.ShowProgressOf(response);
                              if (response.has_activation_set()) set = response.activation_set();
                              return absl::OkStatus();
                            }));
  if (set.name().empty()) {
    return absl::InternalError("the server ended the registration without a result: try again");
  }
  if (session.json) {
    PrintJson(session.out(), set);
  } else {
    PrintSet(session.out(), set);
  }
  return kSuccess;
}

absl::StatusOr<int> List(Session& session) {
  Table table(
      {"SET", "MODEL", ">LAYER", ">SEQUENCES", ">CONTEXT", ">D_MODEL", "TYPE", ">SIZE", "STATE"});
  v1::ListActivationSetsRequest request;
  request.set_page_size(1000);
  do {
    LORSA_ASSIGN_OR_RETURN(
        const v1::ListActivationSetsResponse page,
        session.client.Call(&v1::ActivationService::Stub::ListActivationSets, request));
    for (const v1::ActivationSet& set : page.activation_sets()) {
      if (session.json) PrintJson(session.out(), set);
      table.AddRow({IdOf(set.name()), set.model(), absl::StrCat(set.layer()),
                    FormatCount(set.sequences()), FormatCount(set.context()),
                    FormatCount(set.d_model()), FormatElementType(set.element_type()),
                    FormatBytes(set.size_bytes()), FormatState(set.state())});
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  if (!session.json) table.Print(session.out());
  return kSuccess;
}

absl::StatusOr<int> Show(Session& session, const std::string& id) {
  v1::GetActivationSetRequest request;
  LORSA_ASSIGN_OR_RETURN(*request.mutable_name(), ResourceName("activationSets", id));
  LORSA_ASSIGN_OR_RETURN(
      const v1::ActivationSet set,
      session.client.Call(&v1::ActivationService::Stub::GetActivationSet, request));
  if (session.json) {
    PrintJson(session.out(), set);
  } else {
    PrintSet(session.out(), set);
  }
  return kSuccess;
}

void PrintReport(std::ostream& out, const std::string& id, const v1::VerificationReport& report) {
  if (report.ok()) {
    out << id << " is intact: " << FormatCount(report.sequences_checked())
        << " sequences checked.\n";
    return;
  }
  out << id << " is damaged:\n";
  for (const std::string& problem : report.problems()) out << "  " << Printable(problem) << '\n';
}

absl::StatusOr<int> Verify(Session& session, const std::string& id) {
  v1::VerifyActivationSetRequest request;
  LORSA_ASSIGN_OR_RETURN(*request.mutable_name(), ResourceName("activationSets", id));
  v1::VerificationReport report;
  {
    ByteProgress progress(session);
    LORSA_RETURN_IF_ERROR(
        session.client.Stream(&v1::ActivationService::Stub::VerifyActivationSet, request,
                              [&](const v1::VerifyActivationSetResponse& response) {
                                progress.ShowProgressOf(response);
                                if (response.has_report()) report = response.report();
                                return absl::OkStatus();
                              }));
  }
  if (session.json) {
    PrintJson(session.out(), report);
  } else {
    PrintReport(session.out(), IdOf(request.name()), report);
  }
  return report.ok() ? kSuccess : kError;
}

absl::StatusOr<int> Upload(Session& session, const std::string& id, const std::string& folder) {
  LORSA_RETURN_IF_ERROR(ValidateId("activation set id", id));
  {
    ByteProgress progress(session);
    LORSA_RETURN_IF_ERROR(client::UploadSet(
        session.client, id, folder,
        {.on_progress = [&](int64_t done, int64_t total) { progress.Show(done, total); },
         .on_outage = [&](const absl::Status& why, absl::Duration) { progress.ShowOutage(why); }}));
  }
  return Register(session, id, /*path=*/"");
}

absl::StatusOr<int> Quarantine(Session& session, const std::string& id, const std::string& reason) {
  v1::QuarantineActivationSetRequest request;
  LORSA_ASSIGN_OR_RETURN(*request.mutable_name(), ResourceName("activationSets", id));
  request.set_reason(reason);
  LORSA_ASSIGN_OR_RETURN(
      const v1::ActivationSet set,
      session.client.Call(&v1::ActivationService::Stub::QuarantineActivationSet, request));
  if (session.json) {
    PrintJson(session.out(), set);
  } else {
    session.out() << IdOf(set.name()) << " is quarantined; jobs on it are paused.\n";
  }
  return kSuccess;
}

absl::StatusOr<int> Delete(Session& session, const std::string& id) {
  v1::DeleteActivationSetRequest request;
  LORSA_ASSIGN_OR_RETURN(*request.mutable_name(), ResourceName("activationSets", id));
  LORSA_RETURN_IF_ERROR(
      session.client.Call(&v1::ActivationService::Stub::DeleteActivationSet, request).status());
  if (!session.json) session.out() << IdOf(request.name()) << " is deleted.\n";
  return kSuccess;
}

}  // namespace

void AddSetCommands(CLI::App& app, Action* chosen) {
  CLI::App& set = *app.add_subcommand("set", "Activation sets: what jobs train on");
  set.require_subcommand(1);
  set.footer("Example: lorsa set list");

  const auto id = std::make_shared<std::string>();
  const auto path = std::make_shared<std::string>();
  CLI::App& add = AddCommand(
      set, "register", "Check a folder of shards on the server and make it known under an id",
      "lorsa set register smollm2-l12 /data/smollm2-l12", chosen,
      [id, path](Session& session) { return Register(session, *id, *path); });
  add.add_option("ID", *id, "Id of the set: a-z, 0-9, '-', '_' and '.'")->required();
  add.add_option("PATH", *path, "Absolute path of the folder on the server")->required();

  AddCommand(set, "list", "All registered sets", "lorsa set list", chosen, List);

  CLI::App& show = AddCommand(set, "show", "One set in full", "lorsa set show smollm2-l12", chosen,
                              [id](Session& session) { return Show(session, *id); });
  show.add_option("ID", *id, "Id of the set")->required();

  CLI::App& verify =
      AddCommand(set, "verify", "Read every byte of a set again; exit code 1 if it is damaged",
                 "lorsa set verify smollm2-l12", chosen,
                 [id](Session& session) { return Verify(session, *id); });
  verify.add_option("ID", *id, "Id of the set")->required();

  CLI::App& upload = AddCommand(
      set, "upload",
      "Send a folder of shards on this machine to the server and register it there. An upload that "
      "was cut off goes on where it ended when the command is run again.",
      "lorsa set upload smollm2-l12 ./smollm2-l12", chosen,
      [id, path](Session& session) { return Upload(session, *id, *path); });
  upload.add_option("ID", *id, "Id of the set: a-z, 0-9, '-', '_' and '.'")->required();
  upload.add_option("FOLDER", *path, "Folder on this machine")->required();

  const auto reason = std::make_shared<std::string>();
  CLI::App& quarantine = AddCommand(
      set, "quarantine",
      "Take a set out of use and pause the jobs on it, until `set verify` finds it intact",
      "lorsa set quarantine smollm2-l12 --reason 'disk errors on /data'", chosen,
      [id, reason](Session& session) { return Quarantine(session, *id, *reason); });
  quarantine.add_option("ID", *id, "Id of the set")->required();
  quarantine.add_option("--reason", *reason, "What is wrong with it")->required();

  CLI::App& remove = AddCommand(
      set, "delete",
      "Forget a set that no job uses. Its files stay, unless they were uploaded; deletes an upload "
      "that was not registered too.",
      "lorsa set delete smollm2-l12", chosen,
      [id](Session& session) { return Delete(session, *id); });
  remove.add_option("ID", *id, "Id of the set")->required();
}

}  // namespace lorsa::cli
