// A lorsad for tests of the worker: real gRPC on a loopback port, scripted answers.
#ifndef LORSA_TRAINER_WORKER_TESTING_FAKE_SERVER_H_
#define LORSA_TRAINER_WORKER_TESTING_FAKE_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/file_system.h"
#include "lorsa/v1/activation_service.grpc.pb.h"
#include "lorsa/v1/worker_service.grpc.pb.h"

namespace lorsa::worker {

// What a session did, kept across restarts of the fake server; thread-safe through `mutex`.
struct SessionRecord {
  absl::Mutex mutex;
  int hellos ABSL_GUARDED_BY(mutex) = 0;
  std::vector<std::string> tokens ABSL_GUARDED_BY(mutex);
  std::map<int64_t, v1::MetricBatch> batches ABSL_GUARDED_BY(mutex);  // by number
  int batches_received ABSL_GUARDED_BY(mutex) = 0;                    // repetitions included
  std::vector<v1::CheckpointStaged> staged ABSL_GUARDED_BY(mutex);
  std::vector<v1::JobProgress> heartbeats ABSL_GUARDED_BY(mutex);
  std::vector<v1::WorkerWarning> warnings ABSL_GUARDED_BY(mutex);
  std::vector<v1::WorkerOutcome> outcomes ABSL_GUARDED_BY(mutex);
};

// How the fake answers. Breaking a session ends its stream with UNAVAILABLE.
struct SessionScript {
  grpc::Status refuse = grpc::Status::OK;  // not OK: the answer to every session
  bool acknowledge_metrics = true;
  int break_after_batches = 0;       // break at this batch of a connection; 0 = never
  bool break_at_checkpoint = false;  // break instead of answering a checkpoint
  std::string publish_error;
  bool publish_retriable = false;
  v1::Command command = v1::COMMAND_UNSPECIFIED;  // sent after the welcome
};

class FakeServer {
 public:
  // Listens on a free port and writes it to `endpoint_file`.
  FakeServer(const std::string& endpoint_file, SessionRecord& record, SessionScript script)
      : workers_(record, std::move(script)) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&workers_);
    builder.RegisterService(&activations);
    server_ = builder.BuildAndStart();
    PosixFileSystem fs;
    WriteFileAtomically(fs, endpoint_file, absl::StrCat("127.0.0.1:", port, "\n")).IgnoreError();
  }
  ~FakeServer() { server_->Shutdown(std::chrono::system_clock::now()); }

  // Serves sequence number n of the order as bytes that hold n; `break_every` messages it breaks.
  class Activations final : public v1::ActivationService::Service {
   public:
    grpc::Status StreamSequences(grpc::ServerContext*, const v1::StreamSequencesRequest* request,
                                 grpc::ServerWriter<v1::StreamSequencesResponse>* writer) override {
      if (refusals-- > 0) return {grpc::StatusCode::RESOURCE_EXHAUSTED, "too many streams"};
      for (int64_t cursor = request->cursor(), sent = 0;; ++sent) {
        if (break_every > 0 && sent == break_every) {
          return {grpc::StatusCode::UNAVAILABLE, "broken on purpose"};
        }
        if (held_out > 0 && cursor >= held_out) return grpc::Status::OK;
        if (fail_at >= 0 && cursor >= fail_at) return {grpc::StatusCode::DATA_LOSS, "damaged"};
        v1::StreamSequencesResponse message;
        message.set_cursor(cursor + skip);
        const int n = held_out > 0 ? static_cast<int>(std::min<int64_t>(2, held_out - cursor)) : 2;
        for (int i = 0; i < n; ++i) {
          message.add_indices(cursor + i);
          message.mutable_mhsa_input()->append(4, static_cast<char>(cursor + i));
          message.mutable_mhsa_output()->append(4, static_cast<char>(cursor + i));
          message.mutable_tokens()->append(4, static_cast<char>(cursor + i));
          message.mutable_mask()->append(1, '\1');
        }
        if (!writer->Write(message)) return grpc::Status::OK;
        cursor += n;
      }
    }
    std::atomic<int> refusals = 0;  // streams refused before one is served
    int64_t break_every = 0;
    int64_t held_out = 0;  // > 0: the stream ends there
    int64_t fail_at = -1;
    int64_t skip = 0;  // a server that answers with a wrong cursor
  } activations;

 private:
  class Workers final : public v1::WorkerService::Service {
   public:
    Workers(SessionRecord& record, SessionScript script)
        : record_(record), script_(std::move(script)) {}

    grpc::Status Session(
        grpc::ServerContext* context,
        grpc::ServerReaderWriter<v1::ServerMessage, v1::WorkerMessage>* stream) override {
      if (!script_.refuse.ok()) return script_.refuse;
      v1::WorkerMessage message;
      int batches = 0;
      while (stream->Read(&message)) {
        absl::MutexLock lock(&record_.mutex);
        v1::ServerMessage answer;
        switch (message.item_case()) {
          case v1::WorkerMessage::kHello:
            ++record_.hellos;
            record_.tokens.push_back(Authorization(*context));
            answer.mutable_welcome()
                ->mutable_resolved_spec()
                ->mutable_training()
                ->set_activation_set("set");
            break;
          case v1::WorkerMessage::kHeartbeat:
            record_.heartbeats.push_back(message.heartbeat().progress());
            continue;
          case v1::WorkerMessage::kWarning:
            record_.warnings.push_back(message.warning());
            continue;
          case v1::WorkerMessage::kMetrics:
            ++record_.batches_received;
            record_.batches[message.metrics().number()] = message.metrics();
            if (++batches == script_.break_after_batches) return Broken();
            if (!script_.acknowledge_metrics) continue;
            answer.set_metrics_acknowledged(message.metrics().number());
            break;
          case v1::WorkerMessage::kCheckpoint:
            record_.staged.push_back(message.checkpoint());
            if (script_.break_at_checkpoint) return Broken();
            answer.mutable_checkpoint_published()->set_folder(message.checkpoint().folder());
            answer.mutable_checkpoint_published()->set_error(script_.publish_error);
            answer.mutable_checkpoint_published()->set_retriable(script_.publish_retriable);
            break;
          case v1::WorkerMessage::kOutcome:
            record_.outcomes.push_back(message.outcome());
            answer.mutable_outcome_recorded();
            stream->Write(answer);
            return grpc::Status::OK;
          default:
            continue;
        }
        stream->Write(answer);
        if (answer.has_welcome() && script_.command != v1::COMMAND_UNSPECIFIED) {
          v1::ServerMessage command;
          command.set_command(script_.command);
          stream->Write(command);
        }
      }
      return grpc::Status::OK;
    }

   private:
    static grpc::Status Broken() { return {grpc::StatusCode::UNAVAILABLE, "broken on purpose"}; }
    static std::string Authorization(const grpc::ServerContext& context) {
      const auto it = context.client_metadata().find("authorization");
      return it == context.client_metadata().end()
                 ? ""
                 : std::string(it->second.data(), it->second.size());
    }

    SessionRecord& record_;
    const SessionScript script_;
  };

  Workers workers_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace lorsa::worker

#endif  // LORSA_TRAINER_WORKER_TESTING_FAKE_SERVER_H_
