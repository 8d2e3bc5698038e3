#include "trainer/worker/server_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/worker_protocol.h"

namespace lorsa::worker {
namespace {

constexpr size_t kMaxWaitingWarnings = 100;
constexpr int kMaxPointsPerBatch = 256;

}  // namespace

ServerSession::ServerSession(ServerChannel& channel, ProcessIdentity self, SessionOptions options)
    : channel_(channel),
      self_(std::move(self)),
      options_(options),
      last_contact_(MonotonicNow()),
      thread_([this] { Run(); }) {}

ServerSession::~ServerSession() {
  EndWith(absl::CancelledError("the session was closed"));
  thread_.join();
}

// The first error stands.
void ServerSession::EndWith(absl::Status status) {
  absl::MutexLock lock(&mutex_);
  if (status_.ok()) status_ = std::move(status);
  stopping_ = true;
  changed_.NotifyAll();
  if (context_ != nullptr) context_->TryCancel();
}

absl::StatusOr<v1::Welcome> ServerSession::Start() {
  absl::MutexLock lock(&mutex_);
  const auto answered = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return welcome_.has_value() || !status_.ok();
  };
  mutex_.Await(absl::Condition(&answered));
  if (!welcome_.has_value()) return status_;
  return *welcome_;
}

void ServerSession::SetProgress(v1::JobProgress progress) {
  absl::MutexLock lock(&mutex_);
  progress_ = std::move(progress);
}

void ServerSession::SetWaitingFor(std::string condition) {
  absl::MutexLock lock(&mutex_);
  if (condition == waiting_for_) return;
  waiting_for_ = std::move(condition);
  next_heartbeat_ = absl::ZeroDuration();
  changed_.NotifyAll();
}

absl::Status ServerSession::AddMetrics(v1::MetricPoint point) {
  absl::MutexLock lock(&mutex_);
  const auto room = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return points_.size() < options_.max_waiting_points || !status_.ok();
  };
  mutex_.Await(absl::Condition(&room));
  if (!status_.ok()) return status_;
  points_.push_back(std::move(point));
  changed_.NotifyAll();
  return absl::OkStatus();
}

void ServerSession::AddWarning(v1::WorkerWarning warning) {
  absl::MutexLock lock(&mutex_);
  if (warnings_.size() == kMaxWaitingWarnings) warnings_.pop_front();
  warnings_.push_back(std::move(warning));
  changed_.NotifyAll();
}

absl::Status ServerSession::PublishCheckpoint(v1::CheckpointStaged staged) {
  absl::MutexLock lock(&mutex_);
  staged_ = std::move(staged);
  staged_sent_ = false;
  published_.reset();
  changed_.NotifyAll();
  const auto answered = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return published_.has_value() || !status_.ok();
  };
  mutex_.Await(absl::Condition(&answered));
  staged_.reset();
  if (!published_.has_value()) return status_;
  if (published_->error().empty()) return absl::OkStatus();
  if (published_->retriable()) return absl::ResourceExhaustedError(published_->error());
  return absl::InternalError(
      absl::StrCat("the server refused the checkpoint: ", published_->error()));
}

v1::Command ServerSession::command() const {
  absl::MutexLock lock(&mutex_);
  return command_;
}

absl::Status ServerSession::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

absl::Status ServerSession::Finish(v1::WorkerOutcome outcome, absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  outcome_ = std::move(outcome);
  changed_.NotifyAll();
  const auto recorded = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return outcome_recorded_ || !status_.ok();
  };
  changed_.AwaitFor(mutex_, timeout, recorded);
  if (outcome_recorded_) return absl::OkStatus();
  if (!status_.ok()) return status_;
  return absl::DeadlineExceededError("the server did not record the outcome in time");
}

// OK if it is worth connecting again after `status`; else why not.
absl::Status ServerSession::LastWord(const absl::Status& status) const {
  if (!IsTransient(status)) return status;
  if (MonotonicNow() - last_contact_ <= options_.give_up_after) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("no contact with the server for ",
                                             absl::FormatDuration(options_.give_up_after), ": ",
                                             status.message()));
}

// Connects again and again until told to stop, or until the server's answer is final.
void ServerSession::Run() {
  absl::Duration backoff = options_.min_backoff;
  while (true) {
    const absl::Duration began = MonotonicNow();
    const absl::Status status = RunOnce();
    absl::MutexLock lock(&mutex_);
    if (stopping_ || outcome_recorded_) return;
    if (const absl::Status last = LastWord(status); !last.ok()) {
      if (status_.ok()) status_ = last;
      changed_.NotifyAll();
      return;
    }
    RequeueUnanswered();
    if (MonotonicNow() - began > options_.max_backoff) backoff = options_.min_backoff;
    const auto stopping = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_; };
    if (changed_.AwaitFor(mutex_, backoff, stopping)) return;
    backoff = std::min(2 * backoff, options_.max_backoff);
  }
}

// One connection, from hello to its end. OK is never final: it only means that the stream ended
// without an error.
absl::Status ServerSession::RunOnce() {
  LORSA_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, channel_.Get());
  const auto stub = v1::WorkerService::NewStub(channel);
  grpc::ClientContext context;
  channel_.Authorize(context);
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return absl::CancelledError("the session was closed");
    stream_broken_ = false;
    context_ = &context;
  }
  const std::unique_ptr<Stream> stream = stub->Session(&context);
  v1::WorkerMessage hello;
  hello.mutable_hello()->set_boot_id(self_.boot_id);
  hello.mutable_hello()->set_pid(self_.pid);
  hello.mutable_hello()->set_start_ticks(self_.start_ticks);
  hello.mutable_hello()->set_protocol(kWorkerProtocol);
  hello.mutable_hello()->set_program("lorsa-worker " LORSA_VERSION);
  hello.mutable_hello()->add_kinds("training");
  stream->Write(hello);
  std::thread reader([this, &stream] { ReadLoop(*stream); });
  // Without an outcome the stream is broken or was cancelled by EndWith. It is not cancelled here:
  // that could replace the server's reason for ending it.
  if (WriteLoop(*stream)) stream->WritesDone();
  reader.join();
  const grpc::Status status = stream->Finish();
  absl::MutexLock lock(&mutex_);
  context_ = nullptr;
  return status.ok() ? absl::UnavailableError("the server ended the session") : FromGrpc(status);
}

void ServerSession::ReadLoop(Stream& stream) {
  v1::ServerMessage message;
  while (stream.Read(&message)) {
    absl::MutexLock lock(&mutex_);
    last_contact_ = MonotonicNow();
    Handle(message);
    changed_.NotifyAll();
  }
  absl::MutexLock lock(&mutex_);
  stream_broken_ = true;
  changed_.NotifyAll();
}

void ServerSession::Handle(const v1::ServerMessage& message) {
  switch (message.item_case()) {
    case v1::ServerMessage::kWelcome:
      welcome_ = message.welcome();
      break;
    case v1::ServerMessage::kMetricsAcknowledged:
      while (!batches_.empty() && batches_.front().number() <= message.metrics_acknowledged()) {
        batches_.pop_front();
        if (batches_sent_ > 0) --batches_sent_;
      }
      break;
    case v1::ServerMessage::kCheckpointPublished:
      // An answer to an earlier question, sent again after a reconnect, is not ours.
      if (staged_.has_value() && staged_->folder() == message.checkpoint_published().folder()) {
        published_ = message.checkpoint_published();
      }
      break;
    case v1::ServerMessage::kCommand:
      command_ = message.command();
      break;
    case v1::ServerMessage::kOutcomeRecorded:
      outcome_recorded_ = true;
      break;
    case v1::ServerMessage::ITEM_NOT_SET:
      break;
  }
}

bool ServerSession::SomethingToSend() const {
  return MonotonicNow() >= next_heartbeat_ || !points_.empty() || batches_sent_ < batches_.size() ||
         !warnings_.empty() || (staged_.has_value() && !staged_sent_) ||
         (outcome_.has_value() && !outcome_sent_ && batches_.empty());
}

// Sends what there is until the stream breaks (false) or the outcome is out (true).
bool ServerSession::WriteLoop(Stream& stream) {
  while (true) {
    std::optional<v1::WorkerMessage> message;
    {
      absl::MutexLock lock(&mutex_);
      const auto wake = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return stream_broken_ || stopping_ || (welcome_.has_value() && SomethingToSend());
      };
      changed_.AwaitFor(mutex_, options_.heartbeat_interval, wake);
      if (stream_broken_ || stopping_) return false;
      if (welcome_.has_value()) message = NextMessage();
    }
    if (!message.has_value()) continue;
    if (!stream.Write(*message)) return false;
    if (message->has_outcome()) return true;
    absl::MutexLock lock(&mutex_);
    last_contact_ = MonotonicNow();
  }
}

v1::MetricBatch ServerSession::NextBatch() {
  v1::MetricBatch batch;
  batch.set_number(next_batch_++);
  while (!points_.empty() && batch.points_size() < kMaxPointsPerBatch) {
    *batch.add_points() = std::move(points_.front());
    points_.pop_front();
  }
  return batch;
}

// Metrics and warnings go before a checkpoint and before the outcome, so that a published step's
// metrics are durable with it.
std::optional<v1::WorkerMessage> ServerSession::NextMessage() {
  v1::WorkerMessage message;
  if (batches_sent_ == batches_.size() && !points_.empty()) batches_.push_back(NextBatch());
  if (MonotonicNow() >= next_heartbeat_) {
    *message.mutable_heartbeat()->mutable_progress() = progress_;
    message.mutable_heartbeat()->set_waiting_for(waiting_for_);
    next_heartbeat_ = MonotonicNow() + options_.heartbeat_interval;
  } else if (batches_sent_ < batches_.size()) {
    *message.mutable_metrics() = batches_[batches_sent_++];
  } else if (!warnings_.empty()) {
    *message.mutable_warning() = std::move(warnings_.front());
    warnings_.pop_front();
  } else if (staged_.has_value() && !staged_sent_) {
    *message.mutable_checkpoint() = *staged_;
    staged_sent_ = true;
  } else if (outcome_.has_value() && !outcome_sent_ && batches_.empty()) {
    *message.mutable_outcome() = *outcome_;
    outcome_sent_ = true;
  } else {
    return std::nullopt;
  }
  return message;
}

// A new connection begins with everything that was never answered.
void ServerSession::RequeueUnanswered() {
  batches_sent_ = 0;
  staged_sent_ = published_.has_value();
  outcome_sent_ = false;
  next_heartbeat_ = absl::ZeroDuration();
}

}  // namespace lorsa::worker
