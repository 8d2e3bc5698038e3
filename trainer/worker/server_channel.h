// How the worker finds the server and proves who it is.
#ifndef LORSA_TRAINER_WORKER_SERVER_CHANNEL_H_
#define LORSA_TRAINER_WORKER_SERVER_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/file_system.h"
#include "lorsa/v1/worker_service.pb.h"

namespace lorsa::worker {

// One channel to the server: to the endpoint that the bootstrap names, or to wherever the endpoint
// file says that it is now. Thread-safe.
class ServerChannel {
 public:
  ServerChannel(FileSystem& fs, v1::WorkerBootstrap bootstrap)
      : fs_(fs), bootstrap_(std::move(bootstrap)) {}

  // Reads the endpoint file, if there is to be one, and gives the channel, a new one only if the
  // address changed. UNAVAILABLE if the file is not there: the server is down.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Get();

  // Puts this attempt's token on a call, and a new request id.
  void Authorize(grpc::ClientContext& context) const;

  const v1::WorkerBootstrap& bootstrap() const { return bootstrap_; }

 private:
  absl::StatusOr<std::string> Address() const;

  FileSystem& fs_;
  const v1::WorkerBootstrap bootstrap_;
  absl::Mutex mutex_;
  std::string address_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mutex_);
};

// The absl form of a gRPC status: same code, same message, and what the server calls the request.
absl::Status FromGrpc(const grpc::Status& status);

// Whether a call that failed with `status` may succeed when tried again: the connection broke, the
// server is restarting, or it has no room for now.
bool IsTransient(const absl::Status& status);

// How long to wait before such a call is tried again.
inline constexpr absl::Duration kRetryDelay = absl::Milliseconds(200);

}  // namespace lorsa::worker

#endif  // LORSA_TRAINER_WORKER_SERVER_CHANNEL_H_
