#include "trainer/worker/remote_source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace lorsa::worker {
namespace {

int64_t ByteSize(const store::Sequence& sequence) {
  return static_cast<int64_t>(sequence.mhsa_input.size() + sequence.mhsa_output.size() +
                              sequence.tokens.size() + sequence.mask.size());
}

// Part number `i` of `n` equal parts of `bytes`.
std::string Part(const std::string& bytes, int i, int n) {
  const size_t size = bytes.size() / n;
  return bytes.substr(i * size, size);
}

}  // namespace

RemoteSource::RemoteSource(ServerChannel& channel, Options options)
    : channel_(channel),
      options_(std::move(options)),
      cursor_(options_.request.cursor()),
      thread_([this] { Run(); }) {}

RemoteSource::~RemoteSource() {
  Cancel();
  thread_.join();
}

void RemoteSource::Cancel() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  stopped_.NotifyAll();
  if (context_ != nullptr) context_->TryCancel();
}

absl::Status RemoteSource::Next(store::Sequence& out) {
  absl::MutexLock lock(&mutex_);
  const auto settled = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return !ready_.empty() || !end_.ok() || stopping_;
  };
  mutex_.Await(absl::Condition(&settled));
  if (stopping_) return absl::CancelledError("the source was closed");
  if (ready_.empty()) return end_;
  ready_bytes_ -= ByteSize(ready_.front());
  out = std::move(ready_.front());
  ready_.pop_front();
  return absl::OkStatus();
}

void RemoteSource::End(absl::Status status) {
  absl::MutexLock lock(&mutex_);
  end_ = std::move(status);
}

void RemoteSource::NoteCrowdedOut(bool crowded_out) {
  if (std::exchange(crowded_out_, crowded_out) != crowded_out) options_.crowded_out(crowded_out);
}

void RemoteSource::Run() {
  while (true) {
    absl::Status status = ReadStream();
    NoteCrowdedOut(absl::IsResourceExhausted(status));
    {
      absl::MutexLock lock(&mutex_);
      if (options_.end != 0 && cursor_ >= options_.end) {
        end_ = absl::OutOfRangeError("no more sequences");
        return;
      }
      const auto stopping = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_; };
      if (stopped_.AwaitFor(mutex_, kRetryDelay, stopping)) return;
    }
    if (!IsTransient(status)) return End(std::move(status));
    if (options_.give_up()) return End(absl::CancelledError("asked to stop"));
  }
}

// One call, to its end. OK is not final: without an end of its own, a stream that ends broke.
absl::Status RemoteSource::ReadStream() {
  LORSA_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, channel_.Get());
  const auto stub = v1::ActivationService::NewStub(channel);
  grpc::ClientContext context;
  channel_.Authorize(context);
  v1::StreamSequencesRequest request = options_.request;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return absl::CancelledError("closed");
    request.set_cursor(cursor_);
    context_ = &context;
  }
  const auto stream = stub->StreamSequences(&context, request);
  v1::StreamSequencesResponse message;
  absl::Status status;
  while (status.ok() && stream->Read(&message)) {
    NoteCrowdedOut(false);
    status = Append(message);
  }
  if (!status.ok()) context.TryCancel();
  const grpc::Status finish = stream->Finish();
  absl::MutexLock lock(&mutex_);
  context_ = nullptr;
  if (!status.ok()) return status;
  return finish.ok() ? absl::UnavailableError("the stream ended early") : FromGrpc(finish);
}

// Waits for room, so that the transport's flow control holds the server back.
absl::Status RemoteSource::Append(const v1::StreamSequencesResponse& message) {
  const int n = message.indices_size();
  absl::MutexLock lock(&mutex_);
  if (n == 0 || message.cursor() != cursor_) {
    return absl::DataLossError(absl::StrCat("the server sent ", n, " sequences from number ",
                                            message.cursor(), " on instead of ", cursor_));
  }
  for (int i = 0; i < n; ++i) {
    store::Sequence sequence{.index = message.indices(i),
                             .mhsa_input = Part(message.mhsa_input(), i, n),
                             .mhsa_output = Part(message.mhsa_output(), i, n),
                             .tokens = Part(message.tokens(), i, n),
                             .mask = Part(message.mask(), i, n)};
    ready_bytes_ += ByteSize(sequence);
    ready_.push_back(std::move(sequence));
  }
  cursor_ += n;
  const auto room = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return ready_bytes_ < options_.max_buffered_bytes || stopping_;
  };
  mutex_.Await(absl::Condition(&room));
  return stopping_ ? absl::CancelledError("closed") : absl::OkStatus();
}

}  // namespace lorsa::worker
