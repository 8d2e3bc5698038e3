#include "trainer/train/checkpoint_writer.h"

#include <ATen/ATen.h>

#include <chrono>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "trainer/lorsa/torch_guard.h"

namespace lorsa::trainer {
namespace {

constexpr absl::Duration kDiskFullRetryInterval = absl::Seconds(5);
constexpr char kDiskFull[] = "DISK_FULL";

void CopyTensors(NamedTensors& tensors) {
  for (auto& [name, tensor] : tensors) {
    tensor = tensor.to(at::kCPU, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true)
                 .contiguous();
  }
}

}  // namespace

absl::Status WaitForSpace(RunHost& host, absl::FunctionRef<absl::Status()> write) {
  const auto stopping = [&] { return host.stop_requested() != StopRequest::kNone; };
  absl::Status status = write();
  const bool waits = absl::IsResourceExhausted(status) && !stopping();
  if (waits) host.ReportWaiting(kDiskFull);
  while (absl::IsResourceExhausted(status) && !stopping()) {
    host.Sleep(kDiskFullRetryInterval);
    status = write();
  }
  if (waits) host.ReportWaiting("");
  return status;
}

CheckpointWriter::~CheckpointWriter() {
  if (try_.valid()) try_.wait();
}

void CheckpointWriter::Start(CheckpointContents contents, const CheckpointLabel& label) {
  CopyTensors(contents.weights);
  CopyTensors(contents.state);
  const int64_t step = contents.counts.step;
  job_ = std::make_unique<Job>(Job{.contents = std::move(contents),
                                   .staged = {.folder = CheckpointFolderName(step),
                                              .step = step,
                                              .tokens = label.tokens,
                                              .fvu = label.fvu,
                                              .scheduled = label.scheduled},
                                   .created = host_.Now()});
  job_->staged.path = JoinPath(host_.staging_folder(), job_->staged.folder);
  Launch();
}

void CheckpointWriter::Launch() {
  try_ = std::async(std::launch::async, [this, &job = *job_] {
    return GuardTorch([&] { return WriteAndPublish(job); });
  });
}

absl::StatusOr<std::string> CheckpointWriter::WriteAndPublish(Job& job) {
  LORSA_ASSIGN_OR_RETURN(
      job.staged.manifest_sha256,
      WriteCheckpoint(host_.file_system(), job.staged.path, job.contents, job.created));
  return host_.PublishCheckpoint(job.staged);
}

absl::StatusOr<std::optional<std::string>> CheckpointWriter::Poll() {
  std::optional<std::string> none;
  if (!busy()) return none;
  if (!try_.valid()) {
    if (host_.Uptime() >= next_try_) Launch();
    return none;
  }
  if (try_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return none;
  return Conclude();
}

absl::StatusOr<std::optional<std::string>> CheckpointWriter::Finish() {
  while (busy()) {
    if (!try_.valid()) {
      host_.Sleep(next_try_ - host_.Uptime());
      Launch();
    }
    try_.wait();
    LORSA_ASSIGN_OR_RETURN(std::optional<std::string> published, Conclude());
    if (published) return published;
    if (host_.stop_requested() != StopRequest::kNone) {
      GiveUp();
      return absl::ResourceExhaustedError(full_);
    }
  }
  return std::optional<std::string>();
}

absl::StatusOr<std::optional<std::string>> CheckpointWriter::Conclude() {
  const absl::StatusOr<std::string> result = try_.get();
  const bool full = absl::IsResourceExhausted(result.status());
  SetWaiting(full);
  if (full) {
    full_ = std::string(result.status().message());
    next_try_ = host_.Uptime() + kDiskFullRetryInterval;
    return std::optional<std::string>();
  }
  job_.reset();
  LORSA_RETURN_IF_ERROR(result.status());
  return std::optional<std::string>(*result);
}

void CheckpointWriter::GiveUp() {
  job_.reset();
  SetWaiting(false);
}

void CheckpointWriter::SetWaiting(bool waiting) {
  if (waiting != waiting_) host_.ReportWaiting(waiting ? kDiskFull : "");
  waiting_ = waiting;
}

}  // namespace lorsa::trainer
