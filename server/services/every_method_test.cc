// Every method that the protos declare: that the server offers it, and to whom.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <set>
#include <string>

#include "lorsa/v1/server_config.pb.h"
#include "lorsa/v1/webhook.pb.h"
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

// Messages of files that nothing here uses, so that their descriptors are linked in.
const google::protobuf::Descriptor* const kLinked[] = {v1::ServerConfig::descriptor(),
                                                       v1::JobEndedNotice::descriptor()};

// Every method of every service in the source files of lorsa.v1, by full name.
std::set<std::string> DeclaredMethods() {
  std::set<std::string> methods;
  for (const auto& entry :
       std::filesystem::directory_iterator(LORSA_SOURCE_DIR "/proto/lorsa/v1")) {
    const auto* file = google::protobuf::DescriptorPool::generated_pool()->FindFileByName(
        "lorsa/v1/" + entry.path().filename().string());
    EXPECT_NE(file, nullptr) << entry.path() << " is not linked: add it to kLinked";
    for (int s = 0; file != nullptr && s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        methods.insert(file->service(s)->method(m)->full_name());
      }
    }
  }
  EXPECT_GE(methods.size(), std::size(kLinked));
  return methods;
}

class EveryMethodTest : public ServicesTest {
 protected:
  EveryMethodTest()
      : jobs_({}, Jobs()),
        info_(calls_, *executor_, *catalog_, fs_, conditions_, {}),
        activations_({.calls = calls_,
                      .lanes = OneLane(*executor_),
                      .catalog = *catalog_,
                      .fs = fs_,
                      .roots = ActivationRoots::Create({folder_}).value(),
                      .now = absl::Now,
                      .quarantine = quarantine_,
                      .uploads = uploads_,
                      .inspector = inspector_,
                      .readers = *readers_}),
        checkpoints_({.calls = calls_,
                      .lanes = OneLane(*executor_),
                      .catalog = *catalog_,
                      .fs = fs_,
                      .layout = *layout_,
                      .jobs = jobs_,
                      .inspector = inspector_,
                      .roots = ActivationRoots::Create({folder_}).value(),
                      .now = absl::Now}),
        job_service_({.calls = calls_,
                      .lanes = OneLane(*executor_),
                      .jobs = jobs_,
                      .catalog = *catalog_,
                      .fs = fs_,
                      .watchers = watchers_,
                      .layout = *layout_,
                      .planning = {.kinds = kinds_, .now = absl::Now}}),
        metrics_(calls_, *executor_, *catalog_, watchers_),
        workers_({.calls = calls_,
                  .lanes = OneLane(*executor_),
                  .sessions = jobs_.sessions(),
                  .uploads = staged_uploads_,
                  .fs = fs_,
                  .layout = *layout_}) {
    Serve({services_.begin(), services_.end()});
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
    for (grpc::ByteBuffer response; ok;) {
      call->Read(&response, this);
      queue.Next(&tag, &ok);
    }
    call->Finish(&status, this);
    queue.Next(&tag, &ok);
    return status;
  }

  JobManager jobs_;
  SetQuarantine quarantine_{*catalog_, inspector_, absl::Now, [](const auto&, const auto&) {}};
  SetUploads uploads_{fs_, folder_, 0};
  StagedUploads staged_uploads_{*catalog_, kinds_, fs_, *layout_, 0};
  ServerConditions conditions_{absl::Now};
  ServerInfoService info_;
  ActivationService activations_;
  CheckpointService checkpoints_;
  JobService job_service_;
  MetricService metrics_;
  WorkerService workers_;
  const std::vector<RpcService*> services_ = {&info_,        &activations_, &checkpoints_,
                                              &job_service_, &metrics_,     &workers_};
};

TEST_F(EveryMethodTest, IsOfferedOnce) {
  std::multiset<std::string> offered;
  for (const RpcService* service : services_) {
    for (const Method& method : service->methods()) offered.insert(method.name);
  }
  EXPECT_THAT(offered, testing::ElementsAreArray(DeclaredMethods()));
  EXPECT_EQ(offered.size(), 41u);
}

TEST_F(EveryMethodTest, IsClosedToStrangersIfItIsForWorkers) {
  for (const RpcService* service : services_) {
    for (const Method& method : service->methods()) {
      const bool for_workers = service == &workers_;
      EXPECT_EQ(method.access == Access::kWorker, for_workers) << method.name;
      const size_t dot = method.name.rfind('.');
      const grpc::Status status =
          Call("/" + method.name.substr(0, dot) + "/" + method.name.substr(dot + 1));
      EXPECT_NE(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << method.name;
      EXPECT_EQ(status.error_code() == grpc::StatusCode::UNAUTHENTICATED, for_workers)
          << method.name << ": " << status.error_message();
    }
  }
}

TEST_F(EveryMethodTest, IsUnknownIfNobodyOffersIt) {
  EXPECT_EQ(Call("/lorsa.v1.JobService/ReadEverything").error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace lorsa::server
