#include "base/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace lorsa {
namespace {

using testing::HasSubstr;

class SafetensorsTest : public testing::Test {
 protected:
  std::string Path() const {
    return testing::TempDir() + "/" +
           testing::UnitTest::GetInstance()->current_test_info()->name() + ".safetensors";
  }
  // A file of `header` and `data` with a right length prefix.
  absl::Status Open(const std::string& header, const std::string& data) {
    const uint64_t length = header.size();
    std::string file(8, '\0');
    std::memcpy(file.data(), &length, 8);
    EXPECT_TRUE(WriteFileAtomically(fs_, Path(), file + header + data).ok());
    return SafetensorsReader::Open(fs_, Path()).status();
  }
  PosixFileSystem fs_;
};

TEST_F(SafetensorsTest, WhatIsWrittenIsRead) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> b = {7};
  const auto bytes = [](const auto& v) {
    return absl::MakeConstSpan(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(v[0]));
  };
  ASSERT_TRUE(WriteSafetensors(fs_, Path(),
                               {{"z", "I64", {}, bytes(b)}, {"a", "F32", {2, 3}, bytes(a)}},
                               {{"k", "v"}})
                  .ok());
  auto reader = SafetensorsReader::Open(fs_, Path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->metadata().at("k"), "v");
  auto entry = reader->Find("a");
  ASSERT_TRUE(entry.ok());
  EXPECT_EQ(entry->shape, (std::vector<int64_t>{2, 3}));
  std::vector<float> read(6);
  ASSERT_TRUE(reader->Read(*entry, absl::MakeSpan(reinterpret_cast<char*>(read.data()), 24)).ok());
  EXPECT_EQ(read, a);
  EXPECT_THAT(std::string(reader->Find("W_Q").status().message()), HasSubstr("it has a, z"));
}

TEST_F(SafetensorsTest, TheWriterRefusesASizeThatIsNotTheShapes) {
  const char byte = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(
      WriteSafetensors(fs_, Path(), {{"a", "F32", {2}, absl::MakeConstSpan(&byte, 1)}})));
}

TEST_F(SafetensorsTest, HostileHeadersAreRefusedByName) {
  const auto tensor = [](const std::string& fields) { return "{\"a\":{" + fields + "}}"; };
  const std::string kGood = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  EXPECT_TRUE(Open(tensor(kGood), "1234").ok());
  const std::pair<std::string, std::string> kBad[] = {
      {tensor(kGood), "123"},                                                     // too short
      {tensor(kGood), "12345"},                                                   // too long
      {tensor(R"("dtype":"F31","shape":[1],"data_offsets":[0,4])"), "1234"},      // dtype
      {tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), "1234"},      // shape
      {tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), "1234"},     // negative
      {tensor(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])"), "1234"},    // fraction
      {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), "1234"},      // backwards
      {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), "12345678"},  // gap
      {tensor(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0])"), ""},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       "123"},                              // overlap
      {"[]", ""},                           // not an object
      {"{", ""},                            // not JSON
      {std::string(100000, '['), ""},       // nesting
      {R"({"__metadata__":{"k":1}})", ""},  // metadata that is no string
      {R"({"__metadata__":"k"})", ""},      // metadata that is no object
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
       "12"},  // a name that comes twice
      {R"({"a":{"dtype":"F32","shape":[0]}})", ""}};
  for (const auto& [header, data] : kBad) {
    const absl::Status status = Open(header, data);
    EXPECT_TRUE(absl::IsDataLoss(status)) << header.substr(0, 80) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(Path()));
  }
}

// The sum of the sizes is that of the file, so only the place of each tensor tells.
TEST_F(SafetensorsTest, AnOverlapThatAGapMakesUpForIsRefused) {
  const std::string kHeader = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                              R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})";
  const absl::Status status = Open(kHeader, "12345678");
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("overlap"));
}

TEST_F(SafetensorsTest, AHeaderLengthBeyondTheFileTakesNoMemory) {
  std::string file(8, '\xff');
  ASSERT_TRUE(WriteFileAtomically(fs_, Path(), file).ok());
  EXPECT_TRUE(absl::IsDataLoss(SafetensorsReader::Open(fs_, Path()).status()));
}

}  // namespace
}  // namespace lorsa
