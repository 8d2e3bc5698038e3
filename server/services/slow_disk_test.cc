// A disk that does not answer holds up nobody who asks for something else.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "activation_store/test_sets.h"
#include "base/gated_file_system.h"
#include "base/sha256.h"
#include "lorsa/v1/activation_service.grpc.pb.h"
#include "server/services/activation_service.h"
#include "server/services/services_test_fixture.h"
#include "server/services/upload_test_client.h"

namespace lorsa::server {
namespace {

constexpr int64_t kSequences = 200;

class SlowDiskTest : public ServicesTest {
 protected:
  SlowDiskTest() {
    std::filesystem::create_directories(layout_->SetsFolder());
    std::filesystem::create_directories(folder_ + "/roots");
    service_ = std::make_unique<ActivationService>(ActivationServiceEnvironment{
        .calls = calls_,
        .lanes = threads_.lanes(),
        .catalog = *catalog_,
        .fs = gated_,
        .roots = ActivationRoots::Create({folder_ + "/roots", layout_->SetsFolder()}).value(),
        .now = absl::Now,
        .quarantine = quarantine_,
        .uploads = uploads_,
        .inspector = inspector_,
        .readers = *readers_});
    Serve({service_.get()});
    stub_ = v1::ActivationService::NewStub(channel_);
  }
  void TearDown() override {
    gated_.OpenGate();
    StopServing();
    service_.reset();
  }

  void RegisterSet() {
    v1::RegisterActivationSetRequest request;
    request.set_activation_set_id("set");
    request.set_path(folder_ + "/roots/set");
    store::WriteTestSet(fs_, request.path(), description_, kSequences, 100);
    grpc::ClientContext context;
    auto reader = stub_->RegisterActivationSet(&context, request);
    ReadAll(*reader);
    ASSERT_TRUE(reader->Finish().ok());
  }

  // Whether a call is answered that looks at the disk, but reads no file.
  bool Answers() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::GetUploadRequest request;
    request.set_activation_set_id("other");
    v1::Upload response;
    return stub_->GetUpload(&context, request, &response).ok();
  }

  const store::Manifest description_ =
      store::TestDescription(store::ElementType::kBFloat16, 16, 32);
  GatedFileSystem gated_;
  LaneThreads threads_;
  SetQuarantine quarantine_{*catalog_, inspector_, absl::Now, [](const auto&, const auto&) {}};
  SetUploads uploads_{gated_, layout_->SetsFolder(), /*disk_reserve_bytes=*/0};
  std::unique_ptr<ActivationService> service_;
  std::unique_ptr<v1::ActivationService::Stub> stub_;
};

TEST_F(SlowDiskTest, StreamsThatWaitForItHoldUpNoCall) {
  RegisterSet();
  v1::StreamSequencesRequest request;
  request.set_name("activationSets/set");
  request.set_subset(v1::SEQUENCE_SUBSET_TRAINING);
  request.set_limit(300);
  {
    grpc::ClientContext context;
    auto opened = stub_->StreamSequences(&context, request);  // From now on the set is open.
    ReadAll(*opened);
    ASSERT_TRUE(opened->Finish().ok());
  }
  gated_.CloseGate();
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::StreamSequencesResponse>>> streams;
  for (int i = 0; i < 10; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    streams.push_back(stub_->StreamSequences(contexts.back().get(), request));
  }
  EXPECT_TRUE(Answers());
  gated_.OpenGate();
  for (auto& stream : streams) {
    int sequences = 0;
    for (const auto& message : ReadAll(*stream)) sequences += message.indices_size();
    EXPECT_EQ(sequences, 300);
    EXPECT_TRUE(stream->Finish().ok());
  }
}

TEST_F(SlowDiskTest, UploadsThatAreReadBackHoldUpNoCall) {
  gated_.CloseGate();
  std::vector<std::thread> senders;
  std::vector<grpc::Status> ends(6);
  for (size_t i = 0; i < ends.size(); ++i) {
    senders.emplace_back([this, i, &end = ends[i]] {
      const std::string bytes = "contents";
      v1::UploadStart start;
      start.set_activation_set_id("up");
      start.set_file(store::ShardFile(static_cast<int64_t>(i)));
      start.set_size_bytes(static_cast<int64_t>(bytes.size()));
      start.set_sha256(Sha256Hex(bytes));
      grpc::ClientContext context;
      v1::UploadedFile response;
      const auto writer = stub_->UploadShard(&context, &response);
      end = SendFile(*writer, start, bytes, /*crc_error=*/false);
    });
  }
  EXPECT_TRUE(gated_.AwaitReaders(2));
  EXPECT_TRUE(Answers());
  gated_.OpenGate();
  for (std::thread& sender : senders) sender.join();
  for (const grpc::Status& end : ends) EXPECT_TRUE(end.ok()) << end.error_message();
}

}  // namespace
}  // namespace lorsa::server
