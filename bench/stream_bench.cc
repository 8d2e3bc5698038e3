// What bench/stream.sh and bench/stream_vs_flight.sh need besides lorsad itself: makes a synthetic
// set, and streams it as a worker would, with the generated classes.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "activation_store/checksums.h"
#include "activation_store/set_writer.h"
#include "base/status_macros.h"
#include "lorsa/client/client.h"

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
  bool digest = false;
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

using OnMessage = absl::FunctionRef<void(const v1::StreamSequencesResponse&)>;

// All sequences of the set, each once: the first epoch of the training ones, then the held-out.
absl::Status StreamSet(client::Client& client, const v1::ActivationSet& set,
                       const BenchOptions& options, OnMessage on_message) {
  v1::StreamSequencesRequest request;
  request.set_name(set.name());
  request.set_reader_threads(options.reader_threads);
  int64_t sequences = 0;
  for (const auto subset : {v1::SEQUENCE_SUBSET_TRAINING, v1::SEQUENCE_SUBSET_HELD_OUT}) {
    const bool training = subset == v1::SEQUENCE_SUBSET_TRAINING;
    request.set_subset(subset);
    request.set_limit(training ? set.sequences() - set.held_out_sequences() : 0);
    LORSA_RETURN_IF_ERROR(client.Stream(&v1::ActivationService::Stub::StreamSequences, request,
                                        [&](const v1::StreamSequencesResponse& message) {
                                          sequences += message.indices_size();
                                          on_message(message);
                                          return absl::OkStatus();
                                        }));
  }
  if (sequences != set.sequences()) return absl::DataLossError("sequences are missing");
  return absl::OkStatus();
}

// Megabytes (10^6 bytes) of sequences per second of one pass.
absl::StatusOr<double> StreamOnce(client::Client& client, const v1::ActivationSet& set,
                                  const BenchOptions& options) {
  size_t bytes = 0;
  const absl::Time start = absl::Now();
  LORSA_RETURN_IF_ERROR(
      StreamSet(client, set, options, [&](const v1::StreamSequencesResponse& message) {
        bytes += message.mhsa_input().size() + message.mhsa_output().size() +
                 message.tokens().size() + message.mask().size();
      }));
  return static_cast<double>(bytes) / 1e6 / absl::ToDoubleSeconds(absl::Now() - start);
}

absl::Status Measure(client::Client& client, const v1::ActivationSet& set,
                     const BenchOptions& options) {
  // Unmeasured: the pages of the file, and the connection.
  LORSA_RETURN_IF_ERROR(StreamOnce(client, set, options).status());
  std::vector<double> figures;
  for (int pass = 1; pass <= options.passes; ++pass) {
    LORSA_ASSIGN_OR_RETURN(figures.emplace_back(), StreamOnce(client, set, options));
    std::printf("pass %d: %.0f MB/s\n", pass, figures.back());
  }
  std::sort(figures.begin(), figures.end());
  std::printf("slowest %.0f, median %.0f, fastest %.0f\n", figures.front(),
              figures[figures.size() / 2], figures.back());
  std::printf("MB/s %.0f\n", figures[figures.size() / 2]);
  return absl::OkStatus();
}

// Sum of the sequences' checksums modulo 2^64: of the bytes, whatever their order.
absl::Status Digest(client::Client& client, const v1::ActivationSet& set,
                    const BenchOptions& options) {
  uint64_t sum = 0;
  const auto add = [&](const v1::StreamSequencesResponse& message) {
    const auto part = [&](const std::string& bytes, int i) {
      const size_t size = bytes.size() / message.indices_size();
      return bytes.substr(i * size, size);
    };
    for (int i = 0; i < message.indices_size(); ++i) {
      store::Sequence sequence;
      sequence.mhsa_input = part(message.mhsa_input(), i);
      sequence.mhsa_output = part(message.mhsa_output(), i);
      sequence.tokens = part(message.tokens(), i);
      sequence.mask = part(message.mask(), i);
      sum += store::SequenceChecksum(sequence);
    }
  };
  LORSA_RETURN_IF_ERROR(StreamSet(client, set, options, add));
  std::printf("digest %llu\n", static_cast<unsigned long long>(sum));
  return absl::OkStatus();
}

absl::Status Stream(const BenchOptions& options) {
  LORSA_ASSIGN_OR_RETURN(auto client, client::Client::Create({.server = options.server}));
  v1::GetActivationSetRequest request;
  request.set_name(kSetName);
  LORSA_ASSIGN_OR_RETURN(const v1::ActivationSet set,
                         client->Call(&v1::ActivationService::Stub::GetActivationSet, request));
  return options.digest ? Digest(*client, set, options) : Measure(*client, set, options);
}

int Run(int argc, char** argv) {
  CLI::App app("Speed of StreamSequences; see bench/stream.sh");
  app.require_subcommand(1);
  BenchOptions options;
  CLI::App* make_set = app.add_subcommand("make-set", "Write a synthetic bf16 set");
  make_set->add_option("folder", options.folder)->required();
  make_set->add_option("--sequences", options.sequences)->check(CLI::Range(256, 1 << 20));
  CLI::App* stream = app.add_subcommand("stream", "Stream activationSets/bench");
  stream->add_option("--server", options.server)->required();
  stream->add_option("--passes", options.passes)->check(CLI::Range(1, 1000));
  stream->add_option("--reader-threads", options.reader_threads)->check(CLI::Range(1, 16));
  stream->add_flag("--digest", options.digest, "Print a checksum of all bytes instead");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = make_set->parsed() ? MakeSet(options) : Stream(options);
  if (status.ok()) return EXIT_SUCCESS;
  std::fprintf(stderr, "stream_bench: %s\n", std::string(status.message()).c_str());
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace lorsa

int main(int argc, char** argv) { return lorsa::Run(argc, argv); }
