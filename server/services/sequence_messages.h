// Sequences on their way to a client: StreamSequencesResponse messages whose bytes are written
// by hand around the sequences' own buffers, so that activations are never copied on the way from
// the reader to the socket. (Protobuf 3.21 ignores ctype = CORD: the generated class would copy
// each sequence into a message and that message into a buffer.)
#ifndef LORSA_SERVER_SERVICES_SEQUENCE_MESSAGES_H_
#define LORSA_SERVER_SERVICES_SEQUENCE_MESSAGES_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "activation_store/activation_set.h"
#include "activation_store/sequence_stream.h"
#include "server/rpc/server_stream.h"

namespace lorsa::server {

// Buffers of sequences that were sent, to be read into again: without it each sequence would cost a
// fresh mapping of its pages. Thread-safe (gRPC lets go of a buffer on any of its threads).
class SequencePool : public std::enable_shared_from_this<SequencePool> {
 public:
  // Keeps at most `max_free` buffers.
  explicit SequencePool(size_t max_free) : max_free_(max_free) {}

  // A buffer that returns to the pool when its last owner lets go of it.
  std::shared_ptr<store::Sequence> Take();

 private:
  void Return(std::unique_ptr<store::Sequence> sequence);

  const size_t max_free_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<store::Sequence>> free_ ABSL_GUARDED_BY(mutex_);
};

using SharedSequence = std::shared_ptr<const store::Sequence>;

// The serialised StreamSequencesResponse that holds `sequences`, the first of which has the number
// `cursor` in the order. The buffer shares ownership of the sequences.
grpc::ByteBuffer SequencesMessage(int64_t cursor, const std::vector<SharedSequence>& sequences);

// Each message holds as many whole sequences as fit in 1 MiB, at least one. So messages depend on
// nothing but the set and the cursor.
class SequenceMessageSource final : public StreamSource<grpc::ByteBuffer> {
 public:
  // `manifest` is that of the stream's set. The stream wakes whoever calls Next.
  SequenceMessageSource(const store::Manifest& manifest,
                        std::unique_ptr<store::SequenceStream> stream);

  absl::StatusOr<Pulled> Next(grpc::ByteBuffer& message) override;

 private:
  const int64_t sequences_per_message_;
  const std::shared_ptr<SequencePool> pool_;
  const std::unique_ptr<store::SequenceStream> stream_;
  std::vector<SharedSequence> gathered_;    // of the next message
  std::shared_ptr<store::Sequence> spare_;  // for the next sequence
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_SEQUENCE_MESSAGES_H_
