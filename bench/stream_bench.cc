// The two halves of bench/stream.sh besides lorsad itself: makes a synthetic set, and streams it as
// a worker would, with the generated classes.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "activation_store/set_writer.h"
#include "base/status_macros.h"
#include "client/cpp/client.h"

namespace lorsa {
namespace {

constexpr char kSetName[] = "activationSets/bench";
constexpr char kCreated[] = "2026-01-01T00:00:00Z";

struct BenchOptions {
  std::string folder;
  std::string server;
  int64_t sequences = 512;
  int64_t context = 256;
  int64_t d_model = 576;
  int passes = 9;
  int reader_threads = 2;
};

// bf16 numbers of absolute value 0.5 to 1, all different enough that nothing compresses them.
std::string RandomActivations(int64_t elements, std::mt19937& random) {
  std::string bytes(static_cast<size_t>(elements) * 2, '\0');
  for (int64_t i = 0; i < elements; ++i) {
    const uint16_t bits = static_cast<uint16_t>((random() & 0x807F) | 0x3F00);
    bytes[2 * i] = static_cast<char>(bits);
    bytes[2 * i + 1] = static_cast<char>(bits >> 8);
  }
  return bytes;
}

absl::Status MakeSet(const BenchOptions& options) {
  PosixFileSystem fs;
  store::WriterOptions writer_options;
  store::Manifest& description = writer_options.description;
  description.model = "synthetic";
  description.context = options.context;
  description.d_model = options.d_model;
  description.producer = "bench/stream.sh";
  LORSA_ASSIGN_OR_RETURN(auto writer, store::SetWriter::Create(fs, options.folder, writer_options));
  std::mt19937 random(1);
  store::Sequence sequence;
  sequence.tokens.resize(static_cast<size_t>(options.context) * sizeof(int32_t));
  sequence.mask.assign(static_cast<size_t>(options.context), '\1');
  for (int64_t i = 0; i < options.sequences; ++i) {
    sequence.mhsa_input = RandomActivations(options.context * options.d_model, random);
    sequence.mhsa_output = RandomActivations(options.context * options.d_model, random);
    LORSA_RETURN_IF_ERROR(writer->Append(sequence));
  }
  return writer->Seal(kCreated).status();
}

absl::Status Register(client::Client& client, const std::string& folder) {
  v1::RegisterActivationSetRequest request;
  request.set_activation_set_id("bench");
  request.set_path(folder);
  return client.Stream(&v1::ActivationService::Stub::RegisterActivationSet, request,
                       [](const v1::RegisterActivationSetResponse&) { return absl::OkStatus(); });
}

// Megabytes (10^6 bytes) of sequences per second of one pass over as many as the set has.
absl::StatusOr<double> StreamOnce(client::Client& client, const BenchOptions& options) {
  v1::StreamSequencesRequest request;
  request.set_name(kSetName);
  request.set_subset(v1::SEQUENCE_SUBSET_TRAINING);
  request.set_limit(options.sequences);
  request.set_reader_threads(options.reader_threads);
  size_t bytes = 0;
  int64_t sequences = 0;
  const absl::Time start = absl::Now();
  LORSA_RETURN_IF_ERROR(client.Stream(&v1::ActivationService::Stub::StreamSequences, request,
                                      [&](const v1::StreamSequencesResponse& message) {
                                        sequences += message.indices_size();
                                        bytes += message.mhsa_input().size() +
                                                 message.mhsa_output().size() +
                                                 message.tokens().size() + message.mask().size();
                                        return absl::OkStatus();
                                      }));
  if (sequences != options.sequences) return absl::DataLossError("sequences are missing");
  return static_cast<double>(bytes) / 1e6 / absl::ToDoubleSeconds(absl::Now() - start);
}

absl::Status Stream(const BenchOptions& options) {
  LORSA_ASSIGN_OR_RETURN(auto client, client::Client::Create({.server = options.server}));
  LORSA_RETURN_IF_ERROR(Register(*client, options.folder));
  std::vector<double> figures;
  for (int pass = 1; pass <= options.passes; ++pass) {
    LORSA_ASSIGN_OR_RETURN(figures.emplace_back(), StreamOnce(*client, options));
    std::printf("pass %d: %.0f MB/s\n", pass, figures.back());
  }
  std::sort(figures.begin(), figures.end());
  std::printf("slowest %.0f, median %.0f, fastest %.0f\n", figures.front(),
              figures[figures.size() / 2], figures.back());
  std::printf("MB/s %.0f\n", figures[figures.size() / 2]);
  return absl::OkStatus();
}

int Run(int argc, char** argv) {
  CLI::App app("Speed of StreamSequences; see bench/stream.sh");
  app.require_subcommand(1);
  BenchOptions options;
  CLI::App* make_set = app.add_subcommand("make-set", "Write a synthetic bf16 set");
  make_set->add_option("folder", options.folder)->required();
  CLI::App* stream = app.add_subcommand("stream", "Register the set and stream it");
  stream->add_option("--server", options.server)->required();
  stream->add_option("--set", options.folder)->required();
  stream->add_option("--passes", options.passes)->check(CLI::Range(1, 1000));
  stream->add_option("--reader-threads", options.reader_threads)->check(CLI::Range(1, 16));
  for (CLI::App* command : {make_set, stream}) {
    command->add_option("--sequences", options.sequences)->check(CLI::Range(256, 1 << 20));
  }
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = make_set->parsed() ? MakeSet(options) : Stream(options);
  if (status.ok()) return EXIT_SUCCESS;
  std::fprintf(stderr, "stream_bench: %s\n", std::string(status.message()).c_str());
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace lorsa

int main(int argc, char** argv) { return lorsa::Run(argc, argv); }
