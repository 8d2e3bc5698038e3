#include "server/services/activation_service.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <google/protobuf/util/time_util.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>

#include "activation_store/test_sets.h"
#include "base/safetensors.h"
#include "base/sha256.h"
#include "lorsa/v1/activation_service.grpc.pb.h"
#include "server/catalog/sqlite.h"
#include "server/services/services_test_fixture.h"

namespace lorsa::server {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::HasSubstr;
using v1::StreamSequencesResponse;

constexpr int64_t kSequences = 300;
constexpr int64_t kHeldOut = 128;
const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);

class ActivationServiceTest : public ServicesTest {
 protected:
  ActivationServiceTest() {
    std::filesystem::create_directories(Path("sets"));
    std::filesystem::create_directories(Path("elsewhere"));
    Restart();
  }
  void TearDown() override { Stop(); }

  void Stop() {
    StopServing();
    service_.reset();
  }

  // A new server on the same catalog.
  void Restart() {
    if (service_ != nullptr) Stop();
    executor_ = std::make_unique<Executor>(4);
    service_ = std::make_unique<ActivationService>(
        ActivationServiceEnvironment{.calls = calls_,
                                     .lanes = OneLane(*executor_),
                                     .catalog = *catalog_,
                                     .fs = fs_,
                                     .roots = ActivationRoots::Create({Path("sets")}).value(),
                                     .now = [this] { return now_.load(); },
                                     .quarantine = quarantine_,
                                     .uploads = uploads_,
                                     .inspector = inspector_,
                                     .readers = *readers_,
                                     .sequence_streams = {.in_all = 2}});
    Serve({service_.get()});
    stub_ = v1::ActivationService::NewStub(channel_);
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::string WriteSet(const std::string& name) {
    store::WriteTestSet(fs_, Path("sets/" + name), description_, kSequences, 100);
    return Path("sets/" + name);
  }

  grpc::Status Register(const std::string& id, const std::string& path,
                        std::vector<v1::RegisterActivationSetResponse>* messages = nullptr) {
    grpc::ClientContext context;
    v1::RegisterActivationSetRequest request;
    request.set_activation_set_id(id);
    request.set_path(path);
    auto reader = stub_->RegisterActivationSet(&context, request);
    auto received = ReadAll(*reader);
    if (messages != nullptr) *messages = received;
    return reader->Finish();
  }

  v1::ActivationSet Registered(const std::string& id) {
    std::vector<v1::RegisterActivationSetResponse> messages;
    const grpc::Status status = Register(id, WriteSet(id), &messages);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return messages.empty() ? v1::ActivationSet() : messages.back().activation_set();
  }

  grpc::Status Get(const std::string& name, v1::ActivationSet& set) {
    grpc::ClientContext context;
    v1::GetActivationSetRequest request;
    request.set_name(name);
    return stub_->GetActivationSet(&context, request, &set);
  }

  v1::VerificationReport Verify(const std::string& name) {
    grpc::ClientContext context;
    v1::VerifyActivationSetRequest request;
    request.set_name(name);
    auto reader = stub_->VerifyActivationSet(&context, request);
    const auto messages = ReadAll(*reader);
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return messages.empty() ? v1::VerificationReport() : messages.back().report();
  }

  static v1::StreamSequencesRequest Training(int64_t cursor, int64_t limit) {
    v1::StreamSequencesRequest request;
    request.set_name("activationSets/set");
    request.set_subset(v1::SEQUENCE_SUBSET_TRAINING);
    request.set_seed(7);
    request.set_cursor(cursor);
    request.set_limit(limit);
    return request;
  }

  // The sequences of all messages, in order; their cursors must run on without gaps.
  std::vector<store::Sequence> Stream(const v1::StreamSequencesRequest& request,
                                      grpc::Status* status = nullptr) {
    grpc::ClientContext context;
    auto reader = stub_->StreamSequences(&context, request);
    std::vector<store::Sequence> sequences;
    for (const StreamSequencesResponse& message : ReadAll(*reader)) {
      EXPECT_EQ(message.cursor(), request.cursor() + static_cast<int64_t>(sequences.size()));
      Append(message, sequences);
    }
    const grpc::Status finished = reader->Finish();
    if (status != nullptr) {
      *status = finished;
    } else {
      EXPECT_TRUE(finished.ok()) << finished.error_message();
    }
    return sequences;
  }

  static void Append(const StreamSequencesResponse& message,
                     std::vector<store::Sequence>& sequences) {
    const int count = message.indices_size();
    const auto part = [&](const std::string& bytes, int i) {
      return bytes.substr(i * bytes.size() / count, bytes.size() / count);
    };
    for (int i = 0; i < count; ++i) {
      sequences.push_back({.index = message.indices(i),
                           .mhsa_input = part(message.mhsa_input(), i),
                           .mhsa_output = part(message.mhsa_output(), i),
                           .tokens = part(message.tokens(), i),
                           .mask = part(message.mask(), i)});
    }
  }

  static void ExpectSame(const std::vector<store::Sequence>& a,
                         const std::vector<store::Sequence>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].index, b[i].index) << i;
      EXPECT_TRUE(store::SameBytes(a[i], b[i])) << i;
    }
  }

  const store::Manifest description_ =
      store::TestDescription(store::ElementType::kBFloat16, 16, 64);
  std::atomic<absl::Time> now_ = kStart;
  SetQuarantine quarantine_{*catalog_, inspector_, [this] { return now_.load(); },
                            [](const auto&, const auto&) {}};
  SetUploads uploads_{fs_, Path("sets"), 0};
  std::unique_ptr<ActivationService> service_;
  std::unique_ptr<v1::ActivationService::Stub> stub_;
};

// --- Registration ---

TEST_F(ActivationServiceTest, RegistersASetAfterReadingIt) {
  std::vector<v1::RegisterActivationSetResponse> messages;
  ASSERT_TRUE(Register("set", WriteSet("set"), &messages).ok());
  ASSERT_GE(messages.size(), 2u);
  EXPECT_GT(messages.front().progress().bytes_total(), 0);
  const v1::ActivationSet& set = messages.back().activation_set();
  EXPECT_EQ(set.name(), "activationSets/set");
  EXPECT_EQ(set.path(), Path("sets/set"));
  EXPECT_EQ(set.sequences(), kSequences);
  EXPECT_EQ(set.held_out_sequences(), kHeldOut);
  EXPECT_EQ(set.manifest_sha256(), Sha256OfFile(fs_, Path("sets/set/manifest.json")).value());
  EXPECT_EQ(set.register_time().seconds(), absl::ToUnixSeconds(kStart));
  v1::ActivationSet again;
  ASSERT_TRUE(Get("activationSets/set", again).ok());
  EXPECT_TRUE(MessageDifferencer::Equals(set, again));
}

TEST_F(ActivationServiceTest, RegistrationTellsOfOutlierTargets) {
  EXPECT_FALSE(Registered("plain").has_outlier_targets());
  std::vector<store::Sequence> sequences = store::TestSequences(description_, kSequences);
  const uint16_t large = 0x461c;  // 9,984 in bf16
  std::memcpy(&sequences[7].mhsa_output[3 * description_.d_model * sizeof(large)], &large,
              sizeof(large));
  std::filesystem::create_directories(Path("sets/set"));
  store::WriteShardWithHdf5(Path("sets/set/shard-00000.h5"), sequences, description_,
                            store::Layout::kContiguous);
  std::vector<v1::RegisterActivationSetResponse> messages;
  ASSERT_TRUE(Register("set", Path("sets/set"), &messages).ok());
  const v1::OutlierTargets& outliers = messages.back().activation_set().outlier_targets();
  EXPECT_EQ(outliers.count(), 1);
  ASSERT_EQ(outliers.largest_size(), 1);
  EXPECT_EQ(outliers.largest(0).sequence(), 7);
  EXPECT_EQ(outliers.largest(0).position(), 3);
  EXPECT_NEAR(outliers.largest(0).norm(), 9984, 10);
}

TEST_F(ActivationServiceTest, SealsAFolderThatHoldsOnlyShards) {
  const std::string folder = WriteSet("set");
  fs_.Remove(folder + "/manifest.json").IgnoreError();
  fs_.Remove(folder + "/checksums.h5").IgnoreError();
  ASSERT_TRUE(Register("set", folder).ok());
  EXPECT_TRUE(fs_.Exists(folder + "/manifest.json").value());
  EXPECT_TRUE(Verify("activationSets/set").ok());
}

TEST_F(ActivationServiceTest, RegisteringAgainChangesNothing) {
  const v1::ActivationSet first = Registered("set");
  now_ = kStart + absl::Hours(1);
  std::vector<v1::RegisterActivationSetResponse> messages;
  ASSERT_TRUE(Register("set", Path("sets/set"), &messages).ok());
  EXPECT_TRUE(MessageDifferencer::Equals(messages.back().activation_set(), first));
}

TEST_F(ActivationServiceTest, AnIdIsTakenOnce) {
  Registered("set");
  const grpc::Status status = Register("set", WriteSet("other"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(ReasonIn(status), "ACTIVATION_SET_EXISTS");
}

TEST_F(ActivationServiceTest, RefusesHostileIdsAndPaths) {
  const std::string folder = WriteSet("set");
  for (const std::string& id : {std::string(), std::string("../set"), std::string("a/b"),
                                std::string("A"), std::string(64, 'a'), std::string(".set")}) {
    EXPECT_EQ(Register(id, folder).error_code(), grpc::StatusCode::INVALID_ARGUMENT) << id;
  }
  std::filesystem::create_directory_symlink(Path("elsewhere"), Path("sets/link"));
  for (const std::string& path : {Path("elsewhere"), Path("sets/../elsewhere"), Path("sets/link"),
                                  Path("sets"), std::string("/etc"), std::string("/")}) {
    EXPECT_EQ(Register("set", path).error_code(), grpc::StatusCode::PERMISSION_DENIED) << path;
  }
  EXPECT_EQ(Register("set", "sets/set").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Register("set", Path("sets/missing")).error_code(), grpc::StatusCode::NOT_FOUND);
  v1::ActivationSet set;
  for (const char* name : {"", "set", "activationSets/", "activationSets/../set", "jobs/set"}) {
    EXPECT_EQ(Get(name, set).error_code(), grpc::StatusCode::INVALID_ARGUMENT) << name;
  }
  EXPECT_EQ(Get("activationSets/none", set).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ActivationServiceTest, ADamagedSetIsNotRegistered) {
  const std::string folder = WriteSet("set");
  std::string bytes = store::ReadBytes(folder + "/shard-00001.h5");
  bytes[bytes.size() / 2] ^= 1;
  store::WriteBytes(folder + "/shard-00001.h5", bytes);
  const grpc::Status status = Register("set", folder);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_THAT(status.error_message(), HasSubstr("shard-00001.h5"));
  v1::ActivationSet set;
  EXPECT_EQ(Get("activationSets/set", set).error_code(), grpc::StatusCode::NOT_FOUND);
}

// It counted as registered, so the server started, and no later start looked for it.
TEST_F(ActivationServiceTest, AnUploadWhoseRowCannotBeReadFailsTheAdoption) {
  Registered("set");
  ASSERT_TRUE(catalog_->DeleteActivationSet("set").ok());
  const auto elsewhere = Connection::OpenExisting(layout_->CatalogFile()).value();
  ASSERT_TRUE(elsewhere->Execute("ALTER TABLE activation_sets RENAME TO away").ok());
  EXPECT_FALSE(service_->AdoptUploads().ok());
  ASSERT_TRUE(elsewhere->Execute("ALTER TABLE away RENAME TO activation_sets").ok());
  EXPECT_TRUE(service_->AdoptUploads().ok());
  v1::ActivationSet adopted;
  ASSERT_TRUE(Get("activationSets/set", adopted).ok());
  EXPECT_TRUE(adopted.uploaded());
}

// What is wrong with an upload stays so: it must not fail every start.
TEST_F(ActivationServiceTest, ADamagedUploadFailsNoAdoption) {
  Registered("set");
  ASSERT_TRUE(catalog_->DeleteActivationSet("set").ok());
  std::filesystem::resize_file(Path("sets/set/shard-00000.h5"), 100);
  EXPECT_TRUE(service_->AdoptUploads().ok());
  EXPECT_TRUE(absl::IsNotFound(catalog_->GetActivationSet("set").status()));
}

TEST_F(ActivationServiceTest, ListsInPages) {
  for (const char* id : {"c", "a", "b"}) Registered(id);
  v1::ListActivationSetsRequest request;
  request.set_page_size(2);
  std::vector<std::string> names;
  do {
    grpc::ClientContext context;
    v1::ListActivationSetsResponse response;
    ASSERT_TRUE(stub_->ListActivationSets(&context, request, &response).ok());
    EXPECT_LE(response.activation_sets_size(), 2);
    for (const auto& set : response.activation_sets()) names.push_back(set.name());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(names,
              testing::ElementsAre("activationSets/a", "activationSets/b", "activationSets/c"));
  for (const int size : {-1, 1001}) {
    grpc::ClientContext context;
    v1::ListActivationSetsResponse response;
    request.set_page_size(size);
    EXPECT_EQ(stub_->ListActivationSets(&context, request, &response).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
}

// --- Verification ---

TEST_F(ActivationServiceTest, VerifiesEveryByte) {
  Registered("set");
  v1::VerificationReport report = Verify("activationSets/set");
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.sequences_checked(), kSequences);

  const std::string shard = Path("sets/set/shard-00002.h5");
  std::string bytes = store::ReadBytes(shard);
  bytes[bytes.size() / 2] ^= 4;
  store::WriteBytes(shard, bytes);
  report = Verify("activationSets/set");
  EXPECT_FALSE(report.ok());
  ASSERT_GE(report.problems_size(), 1);
  EXPECT_THAT(report.problems(0), HasSubstr("shard-00002.h5"));
}

TEST_F(ActivationServiceTest, AnotherManifestIsNoticedByStreamsAndVerification) {
  Registered("set");
  const std::string path = Path("sets/set/manifest.json");
  store::WriteBytes(path, store::ReadBytes(path) + "\n");  // as valid as before
  Restart();                                               // so that the set is not open any more
  grpc::Status status;
  Stream(Training(0, 1), &status);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonIn(status), "SET_CHANGED");
  EXPECT_FALSE(Verify("activationSets/set").ok());
}

// --- Streams of sequences ---

TEST_F(ActivationServiceTest, StreamsTheSequencesOfTheSet) {
  Registered("set");
  const auto sequences = Stream(Training(0, kSequences - kHeldOut));
  ASSERT_EQ(sequences.size(), kSequences - kHeldOut);
  std::set<int64_t> indices;
  for (const store::Sequence& sequence : sequences) {
    indices.insert(sequence.index);
    EXPECT_TRUE(store::SameBytes(sequence, store::TestSequence(description_, sequence.index)));
  }
  EXPECT_EQ(indices.size(), sequences.size());
  EXPECT_EQ(*indices.rbegin(), kSequences - kHeldOut - 1);
}

TEST_F(ActivationServiceTest, TheSameCursorGivesTheSameBytes) {
  Registered("set");
  const auto all = Stream(Training(100, 400));  // over the ends of two epochs
  for (const int threads : {1, 3, 16}) {
    auto request = Training(100, 400);
    request.set_reader_threads(threads);
    ExpectSame(Stream(request), all);
  }
  for (const int64_t split : {1, 71, 72, 399}) {
    auto parts = Stream(Training(100, split));
    const auto rest = Stream(Training(100 + split, 400 - split));
    parts.insert(parts.end(), rest.begin(), rest.end());
    ExpectSame(parts, all);
  }
  Restart();
  ExpectSame(Stream(Training(100, 400)), all);
}

TEST_F(ActivationServiceTest, StreamsTheHeldOutSequencesOnceInStoredOrder) {
  Registered("set");
  v1::StreamSequencesRequest request = Training(0, 0);
  request.set_subset(v1::SEQUENCE_SUBSET_HELD_OUT);
  const auto sequences = Stream(request);
  ASSERT_EQ(sequences.size(), kHeldOut);
  for (int64_t i = 0; i < kHeldOut; ++i) {
    EXPECT_EQ(sequences[i].index, kSequences - kHeldOut + i);
  }
}

TEST_F(ActivationServiceTest, RefusesStreamsOutOfBounds) {
  Registered("set");
  const auto code = [&](const v1::StreamSequencesRequest& request) {
    grpc::Status status;
    EXPECT_TRUE(Stream(request, &status).empty());
    return status.error_code();
  };
  auto request = Training(0, 1);
  request.clear_subset();
  EXPECT_EQ(code(request), grpc::StatusCode::INVALID_ARGUMENT);
  request = Training(0, 1);
  request.set_reader_threads(17);
  EXPECT_EQ(code(request), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code(Training(-1, 1)), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code(Training(0, -1)), grpc::StatusCode::INVALID_ARGUMENT);
  request = Training(0, 1);
  request.set_name("activationSets/none");
  EXPECT_EQ(code(request), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ActivationServiceTest, ServesOnlyTheContentsThatAreMeant) {
  const std::string sha256 = Registered("set").manifest_sha256();
  v1::StreamSequencesRequest request = Training(0, 1);
  request.set_manifest_sha256(sha256);
  EXPECT_EQ(Stream(request).size(), 1);
  request.set_manifest_sha256(std::string(64, '0'));
  grpc::Status status;
  EXPECT_TRUE(Stream(request, &status).empty());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr(sha256));

  grpc::ClientContext context;
  v1::ReadAttentionWeightsRequest weights;
  weights.set_name("activationSets/set");
  weights.set_manifest_sha256(std::string(64, '0'));
  auto reader = stub_->ReadAttentionWeights(&context, weights);
  EXPECT_TRUE(ReadAll(*reader).empty());
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(ActivationServiceTest, AFlippedBitEndsTheStreamNamingTheShard) {
  Registered("set");
  const std::string shard = Path("sets/set/shard-00000.h5");
  std::string bytes = store::ReadBytes(shard);
  bytes[bytes.size() / 2] ^= 1;
  store::WriteBytes(shard, bytes);
  grpc::Status status;
  Stream(Training(0, kSequences), &status);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_THAT(status.error_message(), HasSubstr("shard-00000.h5"));
}

TEST_F(ActivationServiceTest, BoundsTheStreamsThatAreOpen) {
  Registered("set");
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<StreamSequencesResponse>>> readers;
  StreamSequencesResponse message;
  grpc::Status refused;
  while (readers.size() < 10) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    auto reader = stub_->StreamSequences(contexts.back().get(), Training(0, 0));
    if (!reader->Read(&message)) {
      refused = reader->Finish();
      break;
    }
    readers.push_back(std::move(reader));
  }
  EXPECT_EQ(readers.size(), 2u);
  EXPECT_EQ(ReasonIn(refused), "TOO_MANY_STREAMS");
  for (auto& context : contexts) context->TryCancel();
  for (auto& reader : readers) {
    while (reader->Read(&message)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
}

// --- Attention weights ---

class AttentionWeightsTest : public ActivationServiceTest {
 protected:
  // Registers a set that has them; returns its folder.
  std::string RegisterWithWeights() {
    const std::string folder = Path("sets/set");
    std::filesystem::create_directories(folder);
    store::Manifest description = description_;
    description.attention =
        store::AttentionGeometry{.n_heads = 2, .n_kv_heads = 1, .d_head = 8, .attn_scale = 8.0};
    const std::vector<float> halves(64 * 64, 0.5F);
    const auto tensor = [&](const char* name, int64_t out, int64_t in) {
      return SafetensorsTensor{name,
                               "F32",
                               {out, in},
                               {reinterpret_cast<const char*>(halves.data()),
                                static_cast<size_t>(out * in) * sizeof(float)}};
    };
    EXPECT_TRUE(WriteSafetensors(fs_, folder + "/attention.safetensors",
                                 {tensor("q_proj.weight", 16, 64), tensor("k_proj.weight", 8, 64),
                                  tensor("v_proj.weight", 8, 64), tensor("o_proj.weight", 64, 16)})
                    .ok());
    store::WriteTestSet(fs_, folder, description, kSequences, 100);
    std::vector<v1::RegisterActivationSetResponse> messages;
    EXPECT_TRUE(Register("set", folder, &messages).ok());
    EXPECT_TRUE(messages.back().activation_set().has_attention_weights());
    return folder;
  }

  grpc::Status Read(std::string* contents = nullptr) {
    grpc::ClientContext context;
    v1::ReadAttentionWeightsRequest request;
    request.set_name("activationSets/set");
    auto reader = stub_->ReadAttentionWeights(&context, request);
    for (const v1::FileChunk& chunk : ReadAll(*reader)) {
      if (contents != nullptr) contents->append(chunk.data());
    }
    return reader->Finish();
  }

  // Damage was found in `file`, and the set is not served any more.
  void ExpectQuarantinedFor(const std::string& file) {
    const grpc::Status damaged = Read();
    EXPECT_EQ(damaged.error_code(), grpc::StatusCode::DATA_LOSS);
    EXPECT_THAT(damaged.error_message(), HasSubstr(file));
    EXPECT_EQ(catalog_->GetActivationSet("set")->state(), v1::ACTIVATION_SET_STATE_QUARANTINED);
    EXPECT_EQ(ReasonIn(Read()), "SET_QUARANTINED");
  }
};

TEST_F(AttentionWeightsTest, AreRead) {
  const std::string folder = RegisterWithWeights();
  std::string contents;
  EXPECT_TRUE(Read(&contents).ok());
  EXPECT_EQ(contents, store::ReadBytes(folder + "/attention.safetensors"));
}

// The worker's run failed instead of being paused.
TEST_F(AttentionWeightsTest, AShardFoundDamagedAsTheyAreReadQuarantinesTheSet) {
  const std::string shard = RegisterWithWeights() + "/shard-00000.h5";
  std::string bytes = store::ReadBytes(shard);
  std::fill(bytes.begin(), bytes.begin() + 512, '\0');
  store::WriteBytes(shard, bytes);
  Restart();
  ExpectQuarantinedFor("shard-00000.h5");
}

TEST_F(AttentionWeightsTest, ThatAreDamagedQuarantineTheSet) {
  const std::string file = RegisterWithWeights() + "/attention.safetensors";
  std::string bytes = store::ReadBytes(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  store::WriteBytes(file, bytes);
  Restart();
  ExpectQuarantinedFor("attention.safetensors");
}

TEST_F(AttentionWeightsTest, ASetWithoutThemSaysSo) {
  Registered("set");
  const grpc::Status status = Read();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonIn(status), "NO_ATTENTION_WEIGHTS");
}

}  // namespace
}  // namespace lorsa::server
