#include "trainer/worker/remote_host.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "lorsa/v1/activation_service.grpc.pb.h"
#include "spdlog/spdlog.h"
#include "trainer/worker/messages.h"
#include "trainer/worker/remote_source.h"

namespace lorsa::worker {
namespace {

constexpr absl::Duration kStopPollInterval = absl::Milliseconds(200);
constexpr uint64_t kMaxRollbacksBytes = 1 << 20;
constexpr char kTooManyStreams[] = "TOO_MANY_STREAMS";  // Job.waiting_for

}  // namespace

RemoteHost::RemoteHost(FileSystem& fs, ServerChannel& channel, ServerSession& session,
                       v1::Welcome welcome, const AttemptFolder* folder,
                       const std::atomic<bool>& stop)
    : fs_(fs),
      channel_(channel),
      session_(session),
      welcome_(std::move(welcome)),
      folder_(folder),
      stop_(stop),
      transfer_(
          fs, channel, [this] { return stop_requested() == trainer::StopRequest::kCancel; },
          [this](int64_t percent) { ReportFetched(percent); }) {}

// Another phase each time, so that a long fetch does not count as standing still.
void RemoteHost::ReportFetched(int64_t percent) {
  trainer::Progress progress = progress_;
  progress.phase = absl::StrCat("fetching a checkpoint, ", percent, " %");
  session_.SetProgress(ToMessage(progress));
}

std::string RemoteHost::staging_folder() {
  return folder_ == nullptr ? channel_.bootstrap().staging_folder() : folder_->staging_folder();
}

std::string RemoteHost::rollbacks_file() {
  return folder_ == nullptr ? channel_.bootstrap().rollbacks_file() : folder_->rollbacks_file();
}

std::unique_ptr<trainer::SequenceSource> RemoteHost::Open(v1::SequenceSubset subset, int64_t cursor,
                                                          int64_t end) {
  RemoteSource::Options options{
      .end = end,
      .give_up = [this] { return stop_requested() == trainer::StopRequest::kCancel; },
      .crowded_out = [this](bool is) { ReportWaiting(is ? kTooManyStreams : ""); }};
  options.request.set_name(welcome_.activation_set().name());
  options.request.set_subset(subset);
  options.request.set_seed(welcome_.resolved_spec().training().seed());
  options.request.set_cursor(cursor);
  options.request.set_manifest_sha256(welcome_.activation_set().manifest_sha256());
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
  LORSA_RETURN_IF_ERROR(status);
  return path;
}

absl::Status RemoteHost::FetchAttentionWeights(const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, channel_.Get());
  grpc::ClientContext context;
  channel_.Authorize(context);
  v1::ReadAttentionWeightsRequest request;
  request.set_name(welcome_.activation_set().name());
  request.set_manifest_sha256(welcome_.activation_set().manifest_sha256());
  const auto stub = v1::ActivationService::NewStub(channel);
  const auto reader = stub->ReadAttentionWeights(&context, request);
  LORSA_ASSIGN_OR_RETURN(const auto download, Download::Create(fs_, path));
  const absl::Status status = download->Receive(context, *reader);
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("reading the attention weights: ", status.message()));
}

void RemoteHost::ReportMetrics(const trainer::MetricPoint& point) {
  // An error here means that the session has ended, which stop_requested tells the run.
  session_.AddMetrics(ToMessage(point, Now())).IgnoreError();
}

void RemoteHost::ReportProgress(const trainer::Progress& progress) {
  progress_ = progress;
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
  if (folder_ != nullptr) LORSA_RETURN_IF_ERROR(transfer_.SendCheckpoint(checkpoint.path));
  v1::CheckpointStaged staged;
  staged.set_folder(checkpoint.folder);
  staged.set_step(checkpoint.step);
  staged.set_tokens(checkpoint.tokens);
  staged.set_manifest_sha256(checkpoint.manifest_sha256);
  if (checkpoint.fvu.has_value()) staged.set_fvu(*checkpoint.fvu);
  staged.set_scheduled(checkpoint.scheduled);
  LORSA_RETURN_IF_ERROR(session_.PublishCheckpoint(std::move(staged)));
  if (folder_ == nullptr) {
    return JoinPath(channel_.bootstrap().checkpoints_folder(), checkpoint.folder);
  }
  // The server has it; what stays here would only take room.
  fs_.RemoveAll(checkpoint.path).IgnoreError();
  return checkpoint.folder;
}

absl::StatusOr<std::string> RemoteHost::FetchCheckpoint(const std::string& folder) {
  if (folder_ == nullptr) return folder;
  const std::string id = folder.substr(folder.rfind('/') + 1);
  const std::string path = JoinPath(folder_->fetched_folder(), id);
  LORSA_RETURN_IF_ERROR(fs_.RemoveAll(folder_->fetched_folder()));
  if (folder == welcome_.initial_checkpoint_folder()) {
    LORSA_RETURN_IF_ERROR(
        transfer_.FetchInitialCheckpoint(welcome_.initial_checkpoint_files(), path));
    return path;
  }
  LORSA_RETURN_IF_ERROR(transfer_.FetchCheckpoint(
      absl::StrCat(channel_.bootstrap().job(), "/checkpoints/", id), path));
  return path;
}

absl::Status RemoteHost::KeepRollbacks() {
  if (folder_ == nullptr) return absl::OkStatus();
  LORSA_ASSIGN_OR_RETURN(const std::string contents,
                         ReadFile(fs_, rollbacks_file(), kMaxRollbacksBytes));
  return transfer_.SendRollbacks(contents);
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
  const absl::Duration end = Uptime() + duration;
  while (Uptime() < end && stop_requested() == trainer::StopRequest::kNone) {
    absl::SleepFor(std::min(kStopPollInterval, end - Uptime()));
  }
}

}  // namespace lorsa::worker
