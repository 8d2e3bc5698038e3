// A real gRPC server on loopback with a catalog and a data folder of its own, for tests of
// services.
#ifndef LORSA_SERVER_SERVICES_SERVICES_TEST_FIXTURE_H_
#define LORSA_SERVER_SERVICES_SERVICES_TEST_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "activation_store/reader_pool.h"
#include "base/file_system.h"
#include "server/catalog/catalog.h"
#include "server/inspection/inspector.h"
#include "server/jobs/job_environment.h"
#include "server/model/data_layout.h"
#include "server/rpc/call.h"
#include "server/rpc/executor.h"
#include "server/rpc/lanes_testing.h"
#include "server/rpc/status_testing.h"

namespace lorsa::server {

class NoWorkers final : public WorkerTokenVerifier {
 public:
  absl::StatusOr<AttemptKey> VerifyWorkerToken(absl::string_view) override {
    return absl::UnauthenticatedError("there are no workers here");
  }
};

class NoLauncher final : public Launcher {
 public:
  absl::StatusOr<ProcessIdentity> Launch(const LaunchRequest&) override {
    return absl::UnimplementedError("nothing is launched here");
  }
  ProcessStatus Check(const ProcessIdentity&) override { return {}; }
  void Kill(const ProcessIdentity&) override {}
};

class ServicesTest : public testing::Test {
 protected:
  ServicesTest() {
    std::string folder = testing::TempDir() + "services_XXXXXX";
    // Links resolved, as paths that the server reports are.
    folder_ = std::filesystem::canonical(::mkdtemp(folder.data()));
    layout_ = std::make_unique<DataLayout>(folder_ + "/data");
    std::filesystem::create_directories(layout_->root());
    catalog_ = Catalog::Open(layout_->CatalogFile()).value();
  }

  // What the parts of server/jobs are set up with.
  JobEnvironment Jobs() {
    return {.catalog = *catalog_,
            .fs = fs_,
            .launcher = launcher_,
            .watchers = watchers_,
            .kinds = kinds_,
            .layout = *layout_,
            .now = absl::Now};
  }

  // Called by the derived test once its services are made.
  void Serve(const std::vector<grpc::Service*>& services) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    for (grpc::Service* service : services) builder.RegisterService(service);
    server_ = builder.BuildAndStart();
    channel_ =
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
  }

  // No call and no handler runs after this; a derived test that owns services calls it in TearDown.
  void StopServing() {
    channel_.reset();
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    executor_.reset();
  }

  ~ServicesTest() override {
    catalog_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string folder_;
  PosixFileSystem fs_;
  std::unique_ptr<DataLayout> layout_;
  std::unique_ptr<Catalog> catalog_;
  const Inspector inspector_{fs_, LORSA_INSPECT_PROGRAM};
  NoLauncher launcher_;
  JobWatchHub watchers_;
  JobKinds kinds_;
  NoWorkers tokens_;
  std::unique_ptr<Executor> executor_ = std::make_unique<Executor>(4);
  OpenStreams streams_{"streams", {}};
  OpenStreams answers_{"answers", {}};
  CallRecords records_;
  const CallEnvironment calls_{tokens_, streams_, answers_, records_};
  const std::unique_ptr<store::ReaderPool> readers_ = store::ReaderPool::Create(4).value();
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

// All messages of a stream.
template <typename Response>
std::vector<Response> ReadAll(grpc::ClientReader<Response>& reader) {
  std::vector<Response> messages;
  Response message;
  while (reader.Read(&message)) messages.push_back(message);
  return messages;
}

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_SERVICES_TEST_FIXTURE_H_
