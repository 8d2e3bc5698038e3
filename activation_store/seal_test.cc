// Sealing and writing step by step: what each failure leaves behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "activation_store/activation_set.h"
#include "activation_store/set_writer.h"
#include "activation_store/test_sets.h"
#include "base/failing_file_system.h"
#include "base/safetensors.h"

namespace lorsa::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SealTest : public testing::Test {
 protected:
  SealTest() {
    description_.attention = {.n_heads = 4, .n_kv_heads = 2, .d_head = 3, .attn_scale = 2};
  }

  std::string Path(const std::string& name) const { return JoinPath(folder_, name); }
  void WriteShard(int64_t number, int64_t sequences) {
    WriteShardWithHdf5(Path(ShardFile(number)), TestSequences(description_, sequences),
                       description_, Layout::kContiguous, FormatDescription(description_));
  }
  absl::Status Seal() { return SealSet(fs_, folder_, kTestNow, nullptr).status(); }
  std::vector<std::string> Files() { return *fs_.List(folder_); }

  // A weight file with the tensors of the description's attention.
  void WriteAttention(std::vector<SafetensorsTensor> tensors) {
    ASSERT_EQ(WriteSafetensors(fs_, Path("attention.safetensors"), std::move(tensors)),
              absl::OkStatus());
  }
  SafetensorsTensor Tensor(const std::string& name, const std::vector<int64_t>& shape) {
    int64_t bytes = 4;
    for (int64_t dim : shape) bytes *= dim;
    return {.name = name,
            .dtype = "F32",
            .shape = shape,
            .data = absl::MakeConstSpan(zeros_.data(), static_cast<size_t>(bytes))};
  }
  std::vector<SafetensorsTensor> Projections() {
    return {Tensor("q_proj.weight", {12, 5}), Tensor("k_proj.weight", {6, 5}),
            Tensor("v_proj.weight", {6, 5}), Tensor("o_proj.weight", {5, 12})};
  }

  PosixFileSystem fs_;
  const std::string folder_ = TestFolder(fs_);
  const std::string zeros_ = std::string(4096, '\0');
  Manifest description_ = TestDescription(ElementType::kFloat16, 6, 5);
};

TEST_F(SealTest, ComputesWhatTheProducerLeftOutAndLeavesTheShardsAlone) {
  WriteShard(0, 4);
  WriteShard(1, 3);
  const std::string before = ReadBytes(Path("shard-00001.h5"));
  const auto sealed = SealSet(fs_, folder_, kTestNow, nullptr);
  ASSERT_TRUE(sealed.ok()) << sealed.status();
  EXPECT_EQ(sealed->manifest.sequences, 7);
  EXPECT_EQ(sealed->manifest.unmasked_tokens, 7 * 5 - 2);  // sequence 2 of each shard is padded
  EXPECT_EQ(sealed->manifest.attention->n_kv_heads, 2);
  EXPECT_EQ(sealed->manifest.created, kTestNow);
  EXPECT_GT(sealed->manifest.mean_input_norm, 0);
  EXPECT_EQ(ReadBytes(Path("shard-00001.h5")), before);
  EXPECT_THAT(Files(),
              ElementsAre("checksums.h5", "manifest.json", "shard-00000.h5", "shard-00001.h5"));
}

TEST_F(SealTest, ASealedFolderIsVerifiedInstead) {
  WriteShard(0, 4);
  ASSERT_EQ(Seal(), absl::OkStatus());
  const std::string manifest = ReadBytes(Path("manifest.json"));
  ASSERT_EQ(Seal(), absl::OkStatus());
  EXPECT_EQ(ReadBytes(Path("manifest.json")), manifest);
  WriteShard(0, 5);
  EXPECT_TRUE(absl::IsDataLoss(Seal()));
  EXPECT_EQ(ReadBytes(Path("manifest.json")), manifest);
}

TEST_F(SealTest, FoldersThatAreNoSetSayWhy) {
  EXPECT_TRUE(absl::IsNotFound(SealSet(fs_, folder_ + "/none", kTestNow, nullptr).status()));
  EXPECT_TRUE(absl::IsNotFound(Seal()));
  WriteShard(1, 3);
  EXPECT_THAT(std::string(Seal().message()), HasSubstr("expected shard-00000.h5 next"));
  WriteShard(0, 3);
  WriteBytes(Path("shard-00002.h5.tmp"), "");
  EXPECT_TRUE(absl::IsFailedPrecondition(Seal()));
}

TEST_F(SealTest, ChecksumsThatDisagreeAreAnErrorAndStay) {
  WriteShard(0, 4);
  ASSERT_EQ(Seal(), absl::OkStatus());
  ASSERT_EQ(fs_.Remove(Path("manifest.json")), absl::OkStatus());
  ASSERT_EQ(Seal(), absl::OkStatus());  // They agree: the seal that a crash left half done.
  ASSERT_EQ(fs_.Remove(Path("manifest.json")), absl::OkStatus());
  const std::string checksums = ReadBytes(Path("checksums.h5"));
  description_.d_model = 4;
  WriteShard(0, 4);
  EXPECT_THAT(std::string(Seal().message()),
              HasSubstr("shard-00000.h5: sequence 0 does not match checksums.h5"));
  EXPECT_EQ(ReadBytes(Path("checksums.h5")), checksums);
}

TEST_F(SealTest, AFailureAtAnyStepLeavesTheSetUnsealedAndTheNextSealSucceeds) {
  WriteShard(0, 4);
  WriteShard(1, 2);
  for (const char* operation :
       {"open", "list", "syncfile", "syncdir", "rename", "create", "append", "sync", "close"}) {
    for (int successes = 0;; ++successes) {
      fs_.Remove(Path("manifest.json")).IgnoreError();
      fs_.Remove(Path("checksums.h5")).IgnoreError();
      FailingFileSystem failing(operation, successes);
      const absl::Status status = SealSet(failing, folder_, kTestNow, nullptr).status();
      if (!failing.failed()) {
        EXPECT_EQ(status, absl::OkStatus());
        ASSERT_GT(successes, 0) << operation << " is never called";
        break;
      }
      EXPECT_TRUE(absl::IsResourceExhausted(status)) << operation << successes << ": " << status;
      for (const std::string& name : Files()) EXPECT_THAT(name, testing::Not(HasSubstr(".tmp")));
      ASSERT_EQ(Seal(), absl::OkStatus()) << "after " << operation << " " << successes;
    }
  }
}

TEST_F(SealTest, AttentionWeightsAreHeldAgainstTheGeometry) {
  WriteShard(0, 4);
  WriteAttention(Projections());
  const auto sealed = SealSet(fs_, folder_, kTestNow, nullptr);
  ASSERT_TRUE(sealed.ok()) << sealed.status();
  ASSERT_TRUE(sealed->manifest.attention_weights.has_value());
  EXPECT_TRUE(VerifySet(fs_, folder_, nullptr)->ok());
  WriteBytes(Path("attention.safetensors"), ReadBytes(Path("attention.safetensors")) + " ");
  EXPECT_THAT(VerifySet(fs_, folder_, nullptr)->problems,
              ElementsAre(HasSubstr("attention.safetensors")));
}

TEST_F(SealTest, WrongAttentionWeightsAreNamed) {
  WriteShard(0, 4);
  const auto refusal = [&](std::vector<SafetensorsTensor> tensors) {
    WriteAttention(std::move(tensors));
    const absl::Status status = Seal();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    return std::string(status.message());
  };
  auto tensors = Projections();
  tensors.pop_back();
  EXPECT_THAT(refusal(tensors), HasSubstr("has no tensor 'o_proj.weight'"));
  tensors.push_back(Tensor("o_proj.weight", {12, 5}));
  EXPECT_THAT(refusal(tensors), HasSubstr("'o_proj.weight' is F32 [12, 5] instead of F32 [5, 12]"));
  tensors = Projections();
  tensors.push_back(Tensor("q_norm.weight", {3}));
  EXPECT_THAT(refusal(tensors), HasSubstr("'q_norm.weight', which the set's attention does not"));
  tensors = Projections();
  tensors.push_back(Tensor("k_proj.bias", {6}));
  WriteAttention(tensors);
  EXPECT_EQ(Seal(), absl::OkStatus());
}

TEST_F(SealTest, WeightsWithoutADescribedAttentionAreRefused) {
  description_.attention.reset();
  WriteShard(0, 4);
  WriteAttention(Projections());
  EXPECT_TRUE(absl::IsFailedPrecondition(Seal()));
}

class WriterTest : public SealTest {};

TEST_F(WriterTest, TheSameSequencesGiveTheSameFiles) {
  WriteTestSet(fs_, Path("a"), description_, 7, 3);
  WriteTestSet(fs_, Path("b"), description_, 7, 3);
  const std::vector<std::string> names = *fs_.List(Path("a"));
  for (const std::string& name : names) {
    EXPECT_EQ(ReadBytes(Path("a/" + name)), ReadBytes(Path("b/" + name))) << name;
  }
}

TEST_F(WriterTest, AFolderThatHoldsASetIsLeftAlone) {
  WriteTestSet(fs_, Path("a"), description_, 2, 2);
  EXPECT_TRUE(absl::IsAlreadyExists(
      SetWriter::Create(fs_, Path("a"), {.description = description_}).status()));
}

TEST_F(WriterTest, WrongSizesAndDescriptionsAreRefused) {
  auto writer = SetWriter::Create(fs_, Path("a"), {.description = description_});
  ASSERT_TRUE(writer.ok()) << writer.status();
  Sequence sequence = TestSequence(description_, 0);
  sequence.mask.pop_back();
  EXPECT_TRUE(absl::IsInvalidArgument((*writer)->Append(sequence)));
  EXPECT_EQ((*writer)->Append(TestSequence(description_, 0)), absl::OkStatus());
  const auto refused = [&](const WriterOptions& options) {
    return absl::IsInvalidArgument(SetWriter::Create(fs_, Path("b"), options).status());
  };
  EXPECT_TRUE(refused({.description = description_, .sequences_per_shard = 0}));
  EXPECT_TRUE(refused({.description = TestDescription(ElementType::kFloat32, 0, 5)}));
  Manifest bad = description_;
  bad.attention->n_kv_heads = 3;
  EXPECT_TRUE(refused({.description = bad}));
}

TEST_F(WriterTest, AfterAFailedStepNothingMoreIsWrittenAndNoShardIsPublished) {
  for (const char* operation : {"open", "syncfile", "rename"}) {
    const std::string folder = Path(operation);
    FailingFileSystem failing(operation);
    auto writer =
        SetWriter::Create(failing, folder, {.description = description_, .sequences_per_shard = 1});
    ASSERT_TRUE(writer.ok()) << writer.status();
    EXPECT_TRUE(absl::IsResourceExhausted((*writer)->Append(TestSequence(description_, 0))));
    EXPECT_TRUE(absl::IsResourceExhausted((*writer)->Append(TestSequence(description_, 1))));
    EXPECT_TRUE(absl::IsResourceExhausted((*writer)->Seal(kTestNow).status()));
    EXPECT_THAT(*fs_.List(folder), ElementsAre("shard-00000.h5.tmp"));
    EXPECT_TRUE(absl::IsFailedPrecondition(SealSet(fs_, folder, kTestNow, nullptr).status()));
  }
}

}  // namespace
}  // namespace lorsa::store
