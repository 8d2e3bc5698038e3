// Every method of the API, called through a generic stub: each asks the authorizer about itself, by
// its own name, before anything else, and a denied call gets no further.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/worker_sessions.h"
#include "server/services/activation_service.h"
#include "server/services/checkpoint_service.h"
#include "server/services/job_service.h"
#include "server/services/metric_service.h"
#include "server/services/server_info_service.h"
#include "server/services/services_test_fixture.h"
#include "server/services/worker_service.h"

namespace lorsa::server {
namespace {

// Denies, and remembers what it was asked.
class DenyAll final : public Authorizer {
 public:
  absl::StatusOr<Caller> Authorize(absl::string_view method,
                                   const grpc::CallbackServerContext&) const override {
    absl::MutexLock lock(&mutex_);
    asked_.insert(std::string(method));
    return absl::PermissionDeniedError("denied by the test");
  }
  std::set<std::string> Take() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(asked_, {});
  }

 private:
  mutable absl::Mutex mutex_;
  mutable std::set<std::string> asked_ ABSL_GUARDED_BY(mutex_);
};

class EveryMethodTest : public ServicesTest {
 protected:
  EveryMethodTest()
      : jobs_({}, Jobs()),
        info_(denied_, *catalog_, fs_, conditions_, {}),
        activations_({.lanes = OneLane(denied_),
                      .catalog = *catalog_,
                      .fs = fs_,
                      .roots = ActivationRoots::Create({folder_}).value(),
                      .now = absl::Now,
                      .quarantine = quarantine_,
                      .uploads = uploads_,
                      .inspector = inspector_,
                      .readers = *readers_}),
        checkpoints_({.lanes = OneLane(denied_),
                      .catalog = *catalog_,
                      .fs = fs_,
                      .layout = *layout_,
                      .jobs = jobs_,
                      .inspector = inspector_,
                      .roots = ActivationRoots::Create({folder_}).value(),
                      .now = absl::Now}),
        job_service_({.lanes = OneLane(denied_),
                      .jobs = jobs_,
                      .catalog = *catalog_,
                      .fs = fs_,
                      .watchers = watchers_,
                      .layout = *layout_,
                      .planning = {.now = absl::Now}}),
        metrics_(denied_, *catalog_, watchers_),
        workers_({.lanes = OneLane(denied_),
                  .sessions = jobs_.sessions(),
                  .uploads = staged_uploads_,
                  .fs = fs_,
                  .layout = *layout_}) {
    Serve({&info_, &activations_, &checkpoints_, &job_service_, &metrics_, &workers_});
  }
  void TearDown() override { StopServing(); }

  // Calls the method with an empty request, whatever its kind.
  grpc::Status Call(const std::string& path) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    grpc::Status status;
    auto call = stub.PrepareCall(&context, path, &queue);
    void* tag;
    bool ok;
    call->StartCall(this);
    queue.Next(&tag, &ok);
    const grpc::Slice empty;
    call->WriteLast(grpc::ByteBuffer(&empty, 1), {}, this);
    queue.Next(&tag, &ok);
    call->Finish(&status, this);
    queue.Next(&tag, &ok);
    return status;
  }

  DenyAll deny_;
  CallRuntime denied_{*executor_, deny_, streams_};
  JobManager jobs_;
  SetQuarantine quarantine_{*catalog_, inspector_, absl::Now, [](const auto&, const auto&) {}};
  SetUploads uploads_{fs_, folder_, 0};
  StagedUploads staged_uploads_{*catalog_, fs_, *layout_, 0};
  ServerConditions conditions_{absl::Now};
  ServerInfoService info_;
  ActivationService activations_;
  CheckpointService checkpoints_;
  JobService job_service_;
  MetricService metrics_;
  WorkerService workers_;
};

TEST_F(EveryMethodTest, IsAuthorisedUnderItsOwnNameFirst) {
  int methods = 0;
  for (const MethodRule& rule : MethodRules()) {
    const std::string name(rule.method);
    const size_t dot = name.rfind('.');
    const grpc::Status status = Call("/" + name.substr(0, dot) + "/" + name.substr(dot + 1));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED)
        << name << ": " << status.error_message();
    EXPECT_EQ(status.error_message(), "denied by the test") << name;
    EXPECT_THAT(deny_.Take(), testing::ElementsAre(name));
    ++methods;
  }
  EXPECT_EQ(methods, 40);
}

}  // namespace
}  // namespace lorsa::server
