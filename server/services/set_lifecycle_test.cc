// Sets over the RPC after and before their registration: quarantine, deletion, upload, scrubbing.
#include <gmock/gmock.h>
#include <google/protobuf/util/time_util.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "activation_store/test_sets.h"
#include "base/sha256.h"
#include "lorsa/v1/activation_service.grpc.pb.h"
#include "server/services/activation_service.h"
#include "server/services/scrubber.h"
#include "server/services/services_test_fixture.h"
#include "server/services/upload_test_client.h"

namespace lorsa::server {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kSequences = 200;
const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);

class SetLifecycleTest : public ServicesTest {
 protected:
  SetLifecycleTest() {
    std::filesystem::create_directories(layout_->SetsFolder());
    std::filesystem::create_directories(Path("roots"));
    service_ = std::make_unique<ActivationService>(ActivationServiceEnvironment{
        .calls = calls_,
        .lanes = OneLane(*executor_),
        .catalog = *catalog_,
        .fs = fs_,
        .roots = ActivationRoots::Create({Path("roots"), layout_->SetsFolder()}).value(),
        .now = [this] { return now_.load(); },
        .quarantine = quarantine_,
        .uploads = uploads_,
        .inspector = inspector_,
        .readers = *readers_});
    Serve({service_.get()});
    stub_ = v1::ActivationService::NewStub(channel_);
  }
  void TearDown() override {
    StopServing();
    service_.reset();
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  grpc::Status Register(const std::string& id, const std::string& path,
                        v1::ActivationSet* set = nullptr) {
    grpc::ClientContext context;
    v1::RegisterActivationSetRequest request;
    request.set_activation_set_id(id);
    request.set_path(path);
    auto reader = stub_->RegisterActivationSet(&context, request);
    const auto messages = ReadAll(*reader);
    if (set != nullptr && !messages.empty()) *set = messages.back().activation_set();
    return reader->Finish();
  }

  // A set of two shards, registered as activationSets/set.
  v1::ActivationSet Registered() {
    store::WriteTestSet(fs_, Path("roots/set"), description_, kSequences, 100);
    v1::ActivationSet set;
    EXPECT_TRUE(Register("set", Path("roots/set"), &set).ok());
    return set;
  }

  v1::ActivationSet Get() { return catalog_->GetActivationSet("set").value(); }

  void Damage(const std::string& shard) {
    std::string bytes = store::ReadBytes(shard);
    bytes[bytes.size() / 2] ^= 1;
    store::WriteBytes(shard, bytes);
  }

  grpc::Status Stream() {
    grpc::ClientContext context;
    v1::StreamSequencesRequest request;
    request.set_name("activationSets/set");
    request.set_subset(v1::SEQUENCE_SUBSET_TRAINING);
    request.set_limit(2 * kSequences);
    auto reader = stub_->StreamSequences(&context, request);
    ReadAll(*reader);
    return reader->Finish();
  }

  v1::VerificationReport Verify() {
    grpc::ClientContext context;
    v1::VerifyActivationSetRequest request;
    request.set_name("activationSets/set");
    auto reader = stub_->VerifyActivationSet(&context, request);
    const auto messages = ReadAll(*reader);
    EXPECT_TRUE(reader->Finish().ok());
    return messages.empty() ? v1::VerificationReport() : messages.back().report();
  }

  grpc::Status Delete(const std::string& id) {
    grpc::ClientContext context;
    v1::DeleteActivationSetRequest request;
    request.set_name("activationSets/" + id);
    google::protobuf::Empty nothing;
    return stub_->DeleteActivationSet(&context, request, &nothing);
  }

  void CreateJob(const std::string& id) {
    NewJob job{.id = id};
    job.resolved_spec.mutable_training()->set_activation_set("set");
    ASSERT_TRUE(catalog_->CreateJob(job, kStart).ok());
  }

  static v1::UploadStart StartOf(const std::string& file, const std::string& bytes) {
    v1::UploadStart start;
    start.set_activation_set_id("up");
    start.set_file(file);
    start.set_size_bytes(static_cast<int64_t>(bytes.size()));
    start.set_sha256(Sha256Hex(bytes));
    return start;
  }

  grpc::Status Send(const v1::UploadStart& start, const std::string& data,
                    v1::UploadedFile* answer = nullptr, bool crc_error = false) {
    grpc::ClientContext context;
    v1::UploadedFile response;
    const auto writer = stub_->UploadShard(&context, &response);
    const grpc::Status status = SendFile(*writer, start, data, crc_error);
    if (answer != nullptr) *answer = response;
    return status;
  }

  v1::Upload Upload() {
    grpc::ClientContext context;
    v1::GetUploadRequest request;
    request.set_activation_set_id("up");
    v1::Upload upload;
    EXPECT_TRUE(stub_->GetUpload(&context, request, &upload).ok());
    return upload;
  }

  ScrubberEnvironment Scrubbing() {
    return {.catalog = *catalog_,
            .fs = fs_,
            .quarantine = quarantine_,
            .layout = *layout_,
            .now = [this] { return now_.load(); },
            .interval = absl::Hours(1),
            .max_bytes_per_second = 0};
  }

  const store::Manifest description_ =
      store::TestDescription(store::ElementType::kBFloat16, 16, 64);
  std::atomic<absl::Time> now_ = kStart;
  std::vector<std::pair<std::string, std::string>> paused_;  // job, why
  SetQuarantine quarantine_{
      *catalog_, inspector_, [this] { return now_.load(); },
      [this](const std::string& job, const std::string& why) { paused_.emplace_back(job, why); }};
  SetUploads uploads_{fs_, layout_->SetsFolder(), 0};
  std::unique_ptr<ActivationService> service_;
  std::unique_ptr<v1::ActivationService::Stub> stub_;
};

TEST_F(SetLifecycleTest, DamageFoundWhileStreamingQuarantinesTheSetAndPausesItsJobs) {
  const v1::ActivationSet before = Registered();
  EXPECT_EQ(before.state(), v1::ACTIVATION_SET_STATE_READY);
  CreateJob("user");
  Damage(Path("roots/set/shard-00000.h5"));
  EXPECT_EQ(Stream().error_code(), grpc::StatusCode::DATA_LOSS);
  const v1::ActivationSet set = Get();
  EXPECT_EQ(set.state(), v1::ACTIVATION_SET_STATE_QUARANTINED);
  ASSERT_EQ(set.problems_size(), 1);
  EXPECT_THAT(set.problems(0), HasSubstr("shard-00000.h5"));
  ASSERT_EQ(paused_.size(), 1);
  EXPECT_EQ(paused_[0].first, "user");
  EXPECT_THAT(paused_[0].second, HasSubstr("shard-00000.h5"));

  // A job that starts on it later is paused too.
  const grpc::Status refused = Stream();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonIn(refused), "SET_QUARANTINED");
  EXPECT_EQ(paused_.size(), 2);
}

TEST_F(SetLifecycleTest, AVerificationQuarantinesAndLifts) {
  Registered();
  const std::string shard = Path("roots/set/shard-00001.h5");
  const std::string bytes = store::ReadBytes(shard);
  Damage(shard);
  EXPECT_FALSE(Verify().ok());
  EXPECT_EQ(Get().state(), v1::ACTIVATION_SET_STATE_QUARANTINED);
  store::WriteBytes(shard, bytes);
  now_ = kStart + absl::Hours(2);
  EXPECT_TRUE(Verify().ok());
  EXPECT_EQ(Get().state(), v1::ACTIVATION_SET_STATE_READY);
  EXPECT_THAT(Get().problems(), IsEmpty());
  EXPECT_EQ(Get().verify_time().seconds(), absl::ToUnixSeconds(now_));
  EXPECT_TRUE(Stream().ok());
}

// A stream found damage while a verification ran, which had read that file before: it then made the
// set READY.
TEST_F(SetLifecycleTest, AVerificationLiftsNoQuarantineImposedSinceItBegan) {
  const v1::ActivationSet set = Registered();
  const auto reported_meanwhile = [&](int64_t, int64_t) {
    EXPECT_TRUE(quarantine_.Impose(set, {"shard-00000.h5 is damaged"}).ok());
    return true;
  };
  const absl::Status lifted = quarantine_.Verify(set, reported_meanwhile).status();
  EXPECT_TRUE(absl::IsAborted(lifted)) << lifted;
  EXPECT_THAT(std::string(lifted.message()), HasSubstr("verify the set again"));
  EXPECT_EQ(Get().state(), v1::ACTIVATION_SET_STATE_QUARANTINED);
  EXPECT_THAT(Get().problems(0), HasSubstr("shard-00000.h5 is damaged"));

  // Reported again in the same words, so that the set looks as it did when the reading began.
  EXPECT_TRUE(absl::IsAborted(quarantine_.Verify(Get(), reported_meanwhile).status()));
  EXPECT_EQ(Get().state(), v1::ACTIVATION_SET_STATE_QUARANTINED);

  EXPECT_TRUE(Verify().ok()) << "it began after the last report";
  EXPECT_EQ(Get().state(), v1::ACTIVATION_SET_STATE_READY);
}

TEST_F(SetLifecycleTest, AVerificationAddsToWhatWasReportedSinceItBegan) {
  const v1::ActivationSet set = Registered();
  Damage(Path("roots/set/shard-00001.h5"));
  bool reported = false;
  const auto report = quarantine_.Verify(set, [&](int64_t, int64_t) {
    if (!std::exchange(reported, true)) {
      EXPECT_TRUE(quarantine_.Impose(set, {"shard-00000.h5 is damaged"}).ok());
    }
    return true;
  });
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_GE(Get().problems_size(), 2);  // The bytes and the sequences differ.
  EXPECT_THAT(Get().problems(0), HasSubstr("shard-00000.h5"));
  EXPECT_THAT(Get().problems(1), HasSubstr("shard-00001.h5"));
}

TEST_F(SetLifecycleTest, PeopleMayQuarantineASet) {
  Registered();
  v1::QuarantineActivationSetRequest request;
  request.set_name("activationSets/set");
  v1::ActivationSet set;
  {
    grpc::ClientContext context;
    EXPECT_EQ(stub_->QuarantineActivationSet(&context, request, &set).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
  request.set_reason("the disk clicks");
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->QuarantineActivationSet(&context, request, &set).ok());
  EXPECT_EQ(set.state(), v1::ACTIVATION_SET_STATE_QUARANTINED);
  EXPECT_THAT(Stream().error_message(), HasSubstr("the disk clicks"));
}

TEST_F(SetLifecycleTest, ASetIsDeletedOnceNoJobUsesItAndItsFilesStay) {
  Registered();
  CreateJob("user");
  const grpc::Status refused = Delete("set");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonIn(refused), "SET_IN_USE");
  EXPECT_THAT(refused.error_message(), HasSubstr("user"));
  ASSERT_TRUE(catalog_
                  ->UpdateJob("user", kStart,
                              [](const JobRecord&) -> absl::StatusOr<JobChange> {
                                return JobChange{.state = v1::JOB_STATE_CANCELLED};
                              })
                  .ok());
  EXPECT_TRUE(Delete("set").ok());
  EXPECT_EQ(Delete("set").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(std::filesystem::exists(Path("roots/set/shard-00000.h5")));
  EXPECT_TRUE(Register("set", Path("roots/set")).ok());
}

TEST_F(SetLifecycleTest, AliasesOfASetAreQuarantinedWithIt) {
  Registered();
  ASSERT_TRUE(Register("alias", Path("roots/set")).ok());
  Damage(Path("roots/set/shard-00000.h5"));
  EXPECT_EQ(Stream().error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_EQ(catalog_->GetActivationSet("alias")->state(), v1::ACTIVATION_SET_STATE_QUARANTINED);
}

// --- Upload ---

// Another set registered on the folder of an upload lost its files when the upload was deleted.
TEST_F(SetLifecycleTest, AnUploadKeepsItsFilesAsLongAsAnySetLiesThere) {
  store::WriteTestSet(fs_, Path("local"), description_, kSequences, kSequences);
  const std::string bytes = store::ReadBytes(Path("local/shard-00000.h5"));
  ASSERT_TRUE(Send(StartOf("shard-00000.h5", bytes), bytes).ok());
  const std::string folder = layout_->SetsFolder() + "/up";
  ASSERT_TRUE(Register("set", folder).ok());
  CreateJob("user");
  const auto expect_kept = [&](const std::string& part) {
    const grpc::Status refused = Delete("up");
    EXPECT_EQ(ReasonIn(refused), "SET_IN_USE");
    EXPECT_THAT(refused.error_message(), HasSubstr(part));
    EXPECT_TRUE(std::filesystem::exists(folder + "/shard-00000.h5"));
  };
  expect_kept("activationSets/set; delete that set first");
  EXPECT_EQ(ReasonIn(Send(StartOf("shard-00001.h5", bytes), bytes)), "ACTIVATION_SET_EXISTS");
  ASSERT_TRUE(Register("up", "").ok());
  expect_kept("activationSets/set; delete that set first");
  EXPECT_EQ(ReasonIn(Delete("set")), "SET_IN_USE");
  ASSERT_TRUE(catalog_
                  ->UpdateJob("user", kStart,
                              [](const JobRecord&) -> absl::StatusOr<JobChange> {
                                return JobChange{.state = v1::JOB_STATE_CANCELLED};
                              })
                  .ok());
  EXPECT_TRUE(Delete("set").ok());
  EXPECT_TRUE(std::filesystem::exists(folder + "/shard-00000.h5"));
  EXPECT_TRUE(Delete("up").ok());
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(SetLifecycleTest, ASetIsNotRegisteredOrDeletedWhileAFileOfItIsSent) {
  store::WriteTestSet(fs_, Path("local"), description_, kSequences, kSequences);
  const std::string bytes = store::ReadBytes(Path("local/shard-00000.h5"));
  ASSERT_TRUE(Send(StartOf("shard-00000.h5", bytes), bytes).ok());
  grpc::ClientContext context;
  v1::UploadedFile response;
  const auto writer = stub_->UploadShard(&context, &response);
  v1::UploadShardRequest first;
  *first.mutable_start() = StartOf("shard-00001.h5", bytes);
  ASSERT_TRUE(writer->Write(first));
  while (Upload().files_size() < 2) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(ReasonIn(Register("up", "")), "SET_BUSY");
  EXPECT_EQ(ReasonIn(Register("set", layout_->SetsFolder() + "/up")), "SET_BUSY");
  EXPECT_EQ(ReasonIn(Delete("up")), "SET_BUSY");
  writer->WritesDone();
  EXPECT_TRUE(writer->Finish().ok());
  EXPECT_EQ(Register("up", "").error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(Delete("up").ok());
}

TEST_F(SetLifecycleTest, AnUploadIsReceivedRegisteredAndDeletedWithItsFiles) {
  store::WriteTestSet(fs_, Path("local"), description_, kSequences, 100);
  EXPECT_EQ(Register("up", "").error_code(), grpc::StatusCode::NOT_FOUND);
  for (const char* file : {"shard-00000.h5", "shard-00001.h5"}) {
    const std::string bytes = store::ReadBytes(Path("local/") + file);
    v1::UploadedFile answer;
    const grpc::Status status = Send(StartOf(file, bytes), bytes, &answer);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_TRUE(answer.complete());
  }
  v1::ActivationSet set;
  const grpc::Status status = Register("up", "", &set);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(set.uploaded());
  EXPECT_EQ(set.sequences(), kSequences);
  EXPECT_EQ(set.path(), layout_->SetsFolder() + "/up");
  const std::string bytes = store::ReadBytes(Path("local/shard-00000.h5"));
  EXPECT_EQ(ReasonIn(Send(StartOf("shard-00002.h5", bytes), bytes)), "ACTIVATION_SET_EXISTS");
  EXPECT_TRUE(Delete("up").ok());
  EXPECT_FALSE(std::filesystem::exists(layout_->SetsFolder() + "/up"));
}

TEST_F(SetLifecycleTest, AnUploadGoesOnWhereItEnded) {
  const std::string bytes(70'000, 'x');
  v1::UploadStart start = StartOf("shard-00000.h5", bytes);
  v1::UploadedFile answer;
  ASSERT_TRUE(Send(start, bytes.substr(0, 30'000), &answer).ok());
  EXPECT_FALSE(answer.complete());
  EXPECT_EQ(answer.received_bytes(), 30'000);
  ASSERT_EQ(Upload().files_size(), 1);
  EXPECT_EQ(Upload().files(0).received_bytes(), 30'000);
  EXPECT_FALSE(Upload().files(0).complete());
  EXPECT_EQ(Register("up", "").error_code(), grpc::StatusCode::FAILED_PRECONDITION);

  const grpc::Status elsewhere = Send(start, bytes);  // from byte 0
  EXPECT_EQ(elsewhere.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(ReasonIn(elsewhere), "OFFSET_MISMATCH");
  start.set_offset(30'000);
  ASSERT_TRUE(Send(start, bytes.substr(30'000), &answer).ok());
  EXPECT_TRUE(answer.complete());
  EXPECT_EQ(store::ReadBytes(layout_->SetsFolder() + "/up/shard-00000.h5"), bytes);
  // The answer was lost and the client asks again; another file of that name is none of ours.
  EXPECT_TRUE(Send(start, "", &answer).ok());
  EXPECT_TRUE(answer.complete());
  EXPECT_EQ(Send(StartOf("shard-00000.h5", "other"), "other").error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_TRUE(Delete("up").ok()) << "an upload that was not registered";
}

TEST_F(SetLifecycleTest, BytesThatDoNotMatchAreDropped) {
  const std::string bytes(30'000, 'x');
  const v1::UploadStart start = StartOf("shard-00000.h5", bytes);
  EXPECT_EQ(Send(start, bytes, nullptr, /*crc_error=*/true).error_code(),
            grpc::StatusCode::DATA_LOSS);
  const grpc::Status wrong = Send(start, std::string(30'000, 'y'));
  EXPECT_EQ(wrong.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_THAT(wrong.error_message(), HasSubstr("sha256"));
  EXPECT_THAT(Upload().files(), IsEmpty());
  EXPECT_EQ(Send(start, bytes + "more").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(SetLifecycleTest, HostileUploadsAreRefusedByField) {
  const v1::UploadStart good = StartOf("shard-00000.h5", "x");
  const auto refused = [&](auto change) {
    v1::UploadStart start = good;
    change(start);
    const grpc::Status status = Send(start, "");
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << start.DebugString();
  };
  for (const char* file : {"", "../up/shard-00000.h5", "shard-0.h5", "shard-000000.h5",
                           "shard-00000.h5.tmp", "upload-shard-00000.h5", "notes.txt"}) {
    refused([&](v1::UploadStart& start) { start.set_file(file); });
  }
  refused([](v1::UploadStart& start) { start.set_activation_set_id("../x"); });
  refused([](v1::UploadStart& start) { start.set_size_bytes(0); });
  refused([](v1::UploadStart& start) { start.set_size_bytes(int64_t{1} << 62); });
  refused([](v1::UploadStart& start) { start.set_sha256("abc"); });
  refused([](v1::UploadStart& start) { start.set_offset(2); });
  EXPECT_TRUE(std::filesystem::is_empty(layout_->SetsFolder()));

  grpc::ClientContext context;
  v1::UploadedFile response;
  auto writer = stub_->UploadShard(&context, &response);
  writer->WritesDone();
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(SetLifecycleTest, AFileIsReceivedByOneCallAtATime) {
  const v1::UploadStart start = StartOf("shard-00000.h5", "x");
  auto receiving = uploads_.Receive(start, nullptr);
  ASSERT_TRUE(receiving.ok());
  EXPECT_TRUE(absl::IsUnavailable(uploads_.Receive(start, nullptr).status()));
  EXPECT_TRUE(uploads_.Receive(StartOf("shard-00001.h5", "x"), nullptr).ok());
  receiving->reset();
  EXPECT_TRUE(uploads_.Receive(start, nullptr).ok());
}

TEST_F(SetLifecycleTest, WhatDoesNotFitBesideTheReserveIsRefused) {
  SetUploads uploads(fs_, layout_->SetsFolder(), int64_t{1} << 60);
  const absl::Status status = uploads.Receive(StartOf("shard-00000.h5", "x"), nullptr).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

// --- Scrubbing ---

TEST_F(SetLifecycleTest, TheScrubberReadsWhatIsDueAndQuarantinesWhatIsDamaged) {
  Registered();
  Damage(Path("roots/set/shard-00001.h5"));
  ScrubOnce(Scrubbing(), {});
  EXPECT_EQ(Get().state(), v1::ACTIVATION_SET_STATE_READY) << "was read within the hour";
  now_ = kStart + absl::Hours(2);
  ScrubOnce(Scrubbing(), {});
  EXPECT_EQ(Get().state(), v1::ACTIVATION_SET_STATE_QUARANTINED);
  EXPECT_THAT(Get().problems(0), HasSubstr("shard-00001.h5"));
  EXPECT_THAT(catalog_->QuarantinedSets().value(), testing::SizeIs(1));
}

TEST_F(SetLifecycleTest, TheScrubberKnowsTheManifestThatWasRegistered) {
  Registered();
  const std::string manifest = Path("roots/set/manifest.json");
  store::WriteBytes(manifest, store::ReadBytes(manifest) + "\n");
  now_ = kStart + absl::Hours(2);
  ScrubOnce(Scrubbing(), {});
  EXPECT_EQ(Get().state(), v1::ACTIVATION_SET_STATE_QUARANTINED);
}

TEST_F(SetLifecycleTest, TheScrubberNotesThatAllIsWell) {
  Registered();
  now_ = kStart + absl::Hours(2);
  ScrubOnce(Scrubbing(), {});
  EXPECT_EQ(Get().state(), v1::ACTIVATION_SET_STATE_READY);
  EXPECT_EQ(Get().verify_time().seconds(), absl::ToUnixSeconds(now_));
}

TEST_F(SetLifecycleTest, TheScrubberMarksADamagedCheckpointAndTakesTheMarkOffARestoredOne) {
  Registered();
  CreateJob("job");
  const auto become = [&](const JobChange& change) {
    ASSERT_TRUE(catalog_
                    ->UpdateJob("job", kStart,
                                [&](const auto&) { return absl::StatusOr<JobChange>(change); })
                    .ok());
  };
  become({.state = v1::JOB_STATE_STARTING, .new_attempt_token_sha256 = "token"});
  become({.state = v1::JOB_STATE_RUNNING});
  const std::string folder = layout_->CheckpointFolder("job", 100);
  std::filesystem::create_directories(folder);
  const std::string manifest =
      R"({"files":{"weights":{"bytes":1,"sha256":")" + Sha256Hex("w") + R"("}}})";
  store::WriteBytes(folder + "/weights", "w");
  store::WriteBytes(folder + "/manifest.json", manifest);
  v1::Checkpoint checkpoint;
  checkpoint.set_step(100);
  v1::CheckpointFile& file = *checkpoint.add_files();
  file.set_name("manifest.json");
  file.set_sha256(Sha256Hex(manifest));
  ASSERT_TRUE(catalog_->PutCheckpoint({"job", 1}, checkpoint, true, kStart).ok());

  store::WriteBytes(folder + "/weights", "x");
  now_ = kStart + absl::Hours(2);
  ScrubOnce(Scrubbing(), {});
  EXPECT_THAT(catalog_->GetCheckpoint("job", 100)->damage(), HasSubstr("weights"));
  EXPECT_THAT(catalog_->DamagedCheckpoints(10).value(), testing::SizeIs(1));

  store::WriteBytes(folder + "/weights", "w");
  now_ = kStart + absl::Hours(4);
  ScrubOnce(Scrubbing(), {});
  EXPECT_EQ(catalog_->GetCheckpoint("job", 100)->damage(), "");
  EXPECT_THAT(catalog_->DamagedCheckpoints(10).value(), IsEmpty());
}

}  // namespace
}  // namespace lorsa::server
