#include "trainer/train/testing/fake_host.h"

#include "activation_store/sequence_order.h"
#include "trainer/train/checkpoint.h"

namespace lorsa::trainer {
namespace {

class FakeSource final : public SequenceSource {
 public:
  // `index` gives the number of the next sequence in the set, or -1 after the last.
  FakeSource(const SyntheticSet& set, std::function<int64_t()> index)
      : set_(set), index_(std::move(index)) {}

  absl::Status Next(store::Sequence& out) override {
    if (cancelled_) return absl::CancelledError("cancelled");
    const int64_t index = index_();
    if (index < 0) return absl::OutOfRangeError("no more sequences");
    out = set_.sequences[index];
    return absl::OkStatus();
  }
  void Cancel() override { cancelled_ = true; }

 private:
  const SyntheticSet& set_;
  std::function<int64_t()> index_;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace

FakeHost::FakeHost(const SyntheticSet& set, uint64_t seed, const std::string& folder)
    : staging(JoinPath(folder, "staging")), set_(set), seed_(seed), folder_(folder) {
  fs_.RemoveAll(folder).IgnoreError();
  fs_.CreateDirectories(staging).IgnoreError();
  fs_.CreateDirectories(JoinPath(folder, "checkpoints")).IgnoreError();
}

std::string FakeHost::CheckpointFolder(int64_t step) const {
  return JoinPath(JoinPath(folder_, "checkpoints"), CheckpointFolderName(step));
}

std::vector<std::string> FakeHost::CheckpointFolders() const {
  std::vector<std::string> folders;
  for (auto it = published.rbegin(); it != published.rend(); ++it) {
    folders.push_back(CheckpointFolder(it->step));
  }
  return folders;
}

std::vector<MetricPoint> FakeHost::Points(MetricKind kind) const {
  std::vector<MetricPoint> points;
  for (const MetricPoint& point : metrics) {
    if (point.kind == kind) points.push_back(point);
  }
  return points;
}

absl::StatusOr<std::unique_ptr<SequenceSource>> FakeHost::OpenTraining(int64_t cursor) {
  const store::SequenceOrder order(set_.manifest.training_sequences(), seed_);
  return std::make_unique<FakeSource>(set_,
                                      [order, cursor]() mutable { return order.At(cursor++); });
}

absl::StatusOr<std::unique_ptr<SequenceSource>> FakeHost::OpenHeldOut() {
  const int64_t end = set_.manifest.sequences;
  return std::make_unique<FakeSource>(set_,
                                      [end, next = set_.manifest.training_sequences()]() mutable {
                                        return next < end ? next++ : -1;
                                      });
}

absl::StatusOr<std::string> FakeHost::LoadAttentionWeights() {
  if (set_.attention.empty()) return absl::NotFoundError("no attention.safetensors");
  const std::string path = JoinPath(folder_, "attention.safetensors");
  if (absl::Status status = WriteTensorFile(fs_, path, set_.attention); !status.ok()) return status;
  return path;
}

void FakeHost::ReportWaiting(absl::string_view condition) { waiting.emplace_back(condition); }

void FakeHost::ReportWarning(absl::string_view message) {
  warnings.emplace_back(message);
  on_warning();
}

void FakeHost::ReportDamagedCheckpoint(int64_t step, absl::string_view why) {
  damaged.push_back(step);
  ReportWarning(why);
}

absl::StatusOr<std::string> FakeHost::PublishCheckpoint(const StagedCheckpoint& checkpoint) {
  if (absl::Status status = on_publish(checkpoint); !status.ok()) return status;
  const std::string target = CheckpointFolder(checkpoint.step);
  fs_.RemoveAll(target).IgnoreError();
  published.push_back(checkpoint);
  if (absl::Status status = fs_.Rename(checkpoint.path, target); !status.ok()) return status;
  return target;
}

absl::StatusOr<std::string> FakeHost::FetchCheckpoint(const std::string& folder) {
  if (absl::Status status = on_fetch(folder); !status.ok()) return status;
  return folder;
}

void FakeHost::Sleep(absl::Duration duration) {
  uptime_ += duration;
  on_sleep();
}

}  // namespace lorsa::trainer
