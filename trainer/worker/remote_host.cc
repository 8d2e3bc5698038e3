#include "trainer/worker/remote_host.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/crc32c.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "lorsa/v1/activation_service.grpc.pb.h"
#include "spdlog/spdlog.h"
#include "trainer/worker/messages.h"
#include "trainer/worker/remote_source.h"

namespace lorsa::worker {
namespace {

constexpr absl::Duration kStopPollInterval = absl::Milliseconds(200);

// Writes the chunks of one file, each checked, and the whole checked at the end.
absl::Status ReceiveFile(grpc::ClientReader<v1::FileChunk>& reader, WritableFile& file) {
  v1::FileChunk chunk;
  Sha256 hash;
  int64_t received = 0;
  while (reader.Read(&chunk)) {
    if (chunk.offset() != received || Crc32c(chunk.data()) != chunk.crc32c()) {
      return absl::DataLossError(absl::StrCat("a chunk at byte ", received, " arrived damaged"));
    }
    LORSA_RETURN_IF_ERROR(file.Append(chunk.data()));
    hash.Update(chunk.data());
    received += static_cast<int64_t>(chunk.data().size());
  }
  LORSA_RETURN_IF_ERROR(FromGrpc(reader.Finish()));
  if (received != chunk.file_size() || hash.HexDigest() != chunk.file_sha256()) {
    return absl::DataLossError("the file arrived with another size or sha256 than was announced");
  }
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<trainer::SequenceSource> RemoteHost::Open(v1::SequenceSubset subset, int64_t cursor,
                                                          int64_t end) {
  RemoteSource::Options options{
      .end = end, .give_up = [this] { return stop_requested() == trainer::StopRequest::kCancel; }};
  options.request.set_name(welcome_.activation_set().name());
  options.request.set_subset(subset);
  options.request.set_seed(welcome_.resolved_spec().seed());
  options.request.set_cursor(cursor);
  return std::make_unique<RemoteSource>(channel_, std::move(options));
}

absl::StatusOr<std::unique_ptr<trainer::SequenceSource>> RemoteHost::OpenTraining(int64_t cursor) {
  return Open(v1::SEQUENCE_SUBSET_TRAINING, cursor, /*end=*/0);
}

absl::StatusOr<std::unique_ptr<trainer::SequenceSource>> RemoteHost::OpenHeldOut() {
  return Open(v1::SEQUENCE_SUBSET_HELD_OUT, 0, welcome_.activation_set().held_out_sequences());
}

absl::StatusOr<std::string> RemoteHost::LoadAttentionWeights() {
  if (!welcome_.activation_set().has_attention_weights()) {
    return absl::NotFoundError(
        absl::StrCat(welcome_.activation_set().name(), " has no attention weights"));
  }
  const std::string path = JoinPath(staging_folder(), "attention.safetensors");
  absl::Status status = FetchAttentionWeights(path);
  while (IsTransient(status) && stop_requested() == trainer::StopRequest::kNone) {
    ReportWarning(absl::StrCat("the attention weights are asked for again: ", status.message()));
    Sleep(kRetryDelay);
    status = FetchAttentionWeights(path);
  }
  if (IsTransient(status)) return absl::CancelledError(status.message());
  // The server's word for a file that is gone or no longer the one that was registered.
  if (absl::IsAborted(status)) return absl::DataLossError(status.message());
  LORSA_RETURN_IF_ERROR(status);
  return path;
}

absl::Status RemoteHost::FetchAttentionWeights(const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, channel_.Get());
  grpc::ClientContext context;
  channel_.Authorize(context);
  v1::ReadAttentionWeightsRequest request;
  request.set_name(welcome_.activation_set().name());
  const auto stub = v1::ActivationService::NewStub(channel);
  const auto reader = stub->ReadAttentionWeights(&context, request);
  LORSA_ASSIGN_OR_RETURN(const auto file, fs_.Create(path));
  if (absl::Status status = ReceiveFile(*reader, *file); !status.ok()) {
    context.TryCancel();
    return absl::Status(status.code(),
                        absl::StrCat("reading the attention weights: ", status.message()));
  }
  return file->Close();
}

void RemoteHost::ReportMetrics(const trainer::MetricPoint& point) {
  // An error here means that the session has ended, which stop_requested tells the run.
  session_.AddMetrics(ToMessage(point, Now())).IgnoreError();
}

void RemoteHost::ReportProgress(const trainer::Progress& progress) {
  session_.SetProgress(ToMessage(progress));
}

void RemoteHost::ReportWaiting(absl::string_view condition) {
  spdlog::warn("event=waiting condition={}", std::string(condition));
  session_.SetWaitingFor(std::string(condition));
}

void RemoteHost::ReportWarning(absl::string_view message) {
  spdlog::warn("event=warning message=\"{}\"", std::string(message));
  v1::WorkerWarning warning;
  warning.set_message(std::string(message));
  session_.AddWarning(std::move(warning));
}

void RemoteHost::ReportDamagedCheckpoint(int64_t step, absl::string_view why) {
  spdlog::warn("event=checkpoint_damaged step={} message=\"{}\"", step, std::string(why));
  v1::WorkerWarning warning;
  warning.set_message(std::string(why));
  warning.set_damaged_step(step);
  session_.AddWarning(std::move(warning));
}

absl::StatusOr<std::string> RemoteHost::PublishCheckpoint(
    const trainer::StagedCheckpoint& checkpoint) {
  v1::CheckpointStaged staged;
  staged.set_folder(checkpoint.folder);
  staged.set_step(checkpoint.step);
  staged.set_tokens(checkpoint.tokens);
  staged.set_manifest_sha256(checkpoint.manifest_sha256);
  if (checkpoint.fvu.has_value()) staged.set_fvu(*checkpoint.fvu);
  staged.set_scheduled(checkpoint.scheduled);
  LORSA_RETURN_IF_ERROR(session_.PublishCheckpoint(std::move(staged)));
  return JoinPath(channel_.bootstrap().checkpoints_folder(), checkpoint.folder);
}

trainer::StopRequest RemoteHost::stop_requested() {
  if (!session_.status().ok()) return trainer::StopRequest::kCancel;
  switch (session_.command()) {
    case v1::COMMAND_PAUSE:
      return trainer::StopRequest::kPause;
    case v1::COMMAND_CANCEL:
      return trainer::StopRequest::kCancel;
    case v1::COMMAND_DRAIN:
      return trainer::StopRequest::kDrain;
    default:
      return stop_ ? trainer::StopRequest::kDrain : trainer::StopRequest::kNone;
  }
}

void RemoteHost::Sleep(absl::Duration duration) {
  const absl::Time end = Now() + duration;
  while (Now() < end && stop_requested() == trainer::StopRequest::kNone) {
    absl::SleepFor(std::min(kStopPollInterval, end - Now()));
  }
}

}  // namespace lorsa::worker
