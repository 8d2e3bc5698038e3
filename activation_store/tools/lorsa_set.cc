// lorsa-set: seals, verifies and shows activation sets where they lie, without a server.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "activation_store/activation_set.h"
#include "activation_store/folder.h"
#include "activation_store/outlier_targets.h"
#include "base/file_system.h"

namespace lorsa::store {
namespace {

constexpr int kFailure = 1;

int Fail(absl::string_view message) {
  std::fprintf(stderr, "lorsa-set: %s\n", std::string(message).c_str());
  return kFailure;
}

int Show(const Manifest& set) {
  const std::string attention =
      !set.attention.has_value()
          ? "not described"
          : absl::StrFormat("%d heads, %d KV heads, d_head %d%s", set.attention->n_heads,
                            set.attention->n_kv_heads, set.attention->d_head,
                            set.attention_weights.has_value() ? ", with weights" : "");
  absl::PrintF("model            %s %s\n", set.model, set.model_revision);
  absl::PrintF("layer            %d (%s)\n", set.layer, set.hook_convention);
  absl::PrintF("attention        %s\n", attention);
  absl::PrintF("shape            %s [%d, %d, %d]\n", ElementTypeName(set.element_type),
               set.sequences, set.context, set.d_model);
  absl::PrintF("held out         %d sequences\n", set.held_out_sequences());
  absl::PrintF("unmasked tokens  %d\n", set.unmasked_tokens);
  absl::PrintF("mean norms       input %.6g, output %.6g\n", set.mean_input_norm,
               set.mean_output_norm);
  absl::PrintF("shards           %d\n", set.shards.size());
  absl::PrintF("produced         %s by %s\n", set.created,
               set.producer.empty() ? "an unnamed producer" : set.producer);
  return 0;
}

void WarnOfOutliers(const OutlierTargets& outliers, double mean_norm) {
  const std::string text = OutliersText(outliers, mean_norm);
  if (!text.empty()) std::fprintf(stderr, "lorsa-set: warning: %s\n", text.c_str());
}

int SealCommand(FileSystem& fs, const std::string& folder) {
  const std::string now = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
  const auto sealed = SealSet(fs, folder, now, nullptr);
  if (!sealed.ok()) return Fail(sealed.status().message());
  WarnOfOutliers(sealed->outliers, sealed->manifest.mean_output_norm);
  return Show(sealed->manifest);
}

int VerifyCommand(FileSystem& fs, const std::string& folder) {
  const auto report = VerifySet(fs, folder, nullptr);
  if (!report.ok()) return Fail(report.status().message());
  for (const std::string& problem : report->problems) Fail(problem);
  if (!report->ok()) return kFailure;
  const auto set = ReadManifest(fs, folder);
  if (set.ok()) WarnOfOutliers(report->outliers, set->manifest.mean_output_norm);
  absl::PrintF("%s: %d sequences, no damage\n", folder, report->sequences_checked);
  return 0;
}

int ShowCommand(FileSystem& fs, const std::string& folder) {
  const auto set = ActivationSet::Open(fs, folder);
  if (!set.ok()) return Fail(set.status().message());
  return Show((*set)->manifest());
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Seals, verifies and shows activation sets where they lie, without a server.\n"
      "Example: lorsa-set seal sets/smollm2-l12");
  app.require_subcommand(1);
  std::string folder;
  CLI::App* seal = app.add_subcommand(
      "seal", "Check a folder of shards and write checksums.h5 and manifest.json");
  CLI::App* verify =
      app.add_subcommand("verify", "Read every byte of a sealed set and report damage");
  CLI::App* show = app.add_subcommand("show", "Print what a sealed set holds");
  for (CLI::App* command : {seal, verify, show}) {
    command->add_option("folder", folder, "The set's folder")->required();
  }
  try {  // The wall to CLI11, which reports by exceptions.
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // 2: wrong usage, as of `lorsa`
  }
  PosixFileSystem fs;
  if (seal->parsed()) return SealCommand(fs, folder);
  if (verify->parsed()) return VerifyCommand(fs, folder);
  return ShowCommand(fs, folder);
}

}  // namespace
}  // namespace lorsa::store

int main(int argc, char** argv) { return lorsa::store::Main(argc, argv); }
