#include "server/services/sequence_messages.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <string>
#include <utility>

#include "lorsa/v1/activation_service.pb.h"

namespace lorsa::server {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;
using v1::StreamSequencesResponse;

constexpr int64_t kMessageBytes = 1 << 20;
// Buffers kept for reuse: more than the transport holds at a time, at least one.
constexpr int64_t kMaxPooledBytes = 8 << 20;

// Bytes of one sequence's four buffers.
int64_t SequenceBytes(const store::Manifest& manifest) {
  const int64_t activations =
      2 * manifest.context * manifest.d_model * store::ElementSize(manifest.element_type);
  return activations + manifest.context * static_cast<int64_t>(sizeof(int32_t) + 1);
}

// A slice of a sequence's own memory, which it keeps alive.
grpc::Slice SharedSlice(const std::string& bytes, SharedSequence owner) {
  return grpc::Slice(
      const_cast<char*>(bytes.data()), bytes.size(),
      [](void* held) { delete static_cast<SharedSequence*>(held); },
      new SharedSequence(std::move(owner)));
}

// What stands before the first `bytes` field: cursor and packed indices. As the generated class
// writes it: a zero cursor is left out.
std::string Head(int64_t cursor, const std::vector<SharedSequence>& sequences) {
  StreamSequencesResponse head;
  head.set_cursor(cursor);
  for (const SharedSequence& sequence : sequences) head.add_indices(sequence->index);
  return head.SerializeAsString();
}

// Tag and length of a `bytes` field.
std::string FieldHead(int field, size_t bytes) {
  std::string head;
  StringOutputStream stream(&head);
  CodedOutputStream out(&stream);
  out.WriteTag(WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
  out.WriteVarint64(bytes);
  out.Trim();
  return head;
}

}  // namespace

std::shared_ptr<store::Sequence> SequencePool::Take() {
  std::unique_ptr<store::Sequence> sequence;
  {
    absl::MutexLock lock(&mutex_);
    if (!free_.empty()) {
      sequence = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (sequence == nullptr) sequence = std::make_unique<store::Sequence>();
  return {sequence.release(), [pool = shared_from_this()](store::Sequence* returned) {
            pool->Return(std::unique_ptr<store::Sequence>(returned));
          }};
}

void SequencePool::Return(std::unique_ptr<store::Sequence> sequence) {
  absl::MutexLock lock(&mutex_);
  if (free_.size() < max_free_) free_.push_back(std::move(sequence));
}

grpc::ByteBuffer SequencesMessage(int64_t cursor, const std::vector<SharedSequence>& sequences) {
  struct Field {
    int number;
    std::string store::Sequence::*bytes;
  };
  constexpr Field kFields[] = {
      {StreamSequencesResponse::kMhsaInputFieldNumber, &store::Sequence::mhsa_input},
      {StreamSequencesResponse::kMhsaOutputFieldNumber, &store::Sequence::mhsa_output},
      {StreamSequencesResponse::kTokensFieldNumber, &store::Sequence::tokens},
      {StreamSequencesResponse::kMaskFieldNumber, &store::Sequence::mask},
  };
  std::vector<grpc::Slice> slices = {grpc::Slice(Head(cursor, sequences))};
  for (const Field& field : kFields) {
    size_t bytes = 0;
    for (const auto& sequence : sequences) bytes += ((*sequence).*field.bytes).size();
    slices.emplace_back(FieldHead(field.number, bytes));
    for (const auto& sequence : sequences) {
      slices.push_back(SharedSlice((*sequence).*field.bytes, sequence));
    }
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

SequenceMessageSource::SequenceMessageSource(const store::Manifest& manifest,
                                             std::unique_ptr<store::SequenceStream> stream)
    : sequences_per_message_(std::max<int64_t>(1, kMessageBytes / SequenceBytes(manifest))),
      pool_(std::make_shared<SequencePool>(
          std::max<int64_t>(1, kMaxPooledBytes / SequenceBytes(manifest)))),
      stream_(std::move(stream)) {}

absl::StatusOr<Pulled> SequenceMessageSource::Next(grpc::ByteBuffer& message) {
  message.Clear();  // The sequences of the last message go back to the pool.
  while (static_cast<int64_t>(gathered_.size()) < sequences_per_message_) {
    if (spare_ == nullptr) spare_ = pool_->Take();
    const absl::StatusOr<bool> read = stream_->TryNext(*spare_);
    // The stream says the same again next time, when what was read before it has been sent.
    if (!read.ok() && !gathered_.empty()) break;
    if (absl::IsOutOfRange(read.status())) return Pulled::kEnd;
    if (!read.ok()) return read.status();
    if (!*read) return Pulled::kNothing;
    gathered_.push_back(std::move(spare_));
  }
  const int64_t cursor = stream_->cursor() - static_cast<int64_t>(gathered_.size());
  message = SequencesMessage(cursor, gathered_);
  gathered_.clear();
  return Pulled::kMessage;
}

}  // namespace lorsa::server
