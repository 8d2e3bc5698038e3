// With the real lorsa-inspect, and with shell scripts that stand for one to which a file did harm.
#include "server/inspection/inspector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "activation_store/test_sets.h"
#include "base/safetensors.h"
#include "base/scratch_folder.h"

namespace lorsa::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class InspectorTest : public testing::Test {
 protected:
  InspectorTest() { std::filesystem::create_directories(Folder()); }

  std::string Folder() const { return scratch_.Path("folder"); }
  std::string File(const std::string& name) const { return Folder() + "/" + name; }

  void WriteSet() {
    store::WriteTestSet(fs_, Folder(), store::TestDescription(store::ElementType::kFloat16, 6, 5),
                        200, 100);
  }

  // A stand-in for lorsa-inspect, and limits that do not keep a test waiting.
  Inspection InspectWith(const std::string& body) {
    const std::string script = scratch_.Path("inspect.sh");
    EXPECT_TRUE(WriteFileAtomically(fs_, script, "#!/bin/sh\n" + body + "\n", 0755).ok());
    return Inspector(fs_, script, {.time = absl::Milliseconds(500)}).InspectSet(Folder());
  }
  void ExpectHarm(const std::string& body, const std::string& part) {
    const Inspection inspection = InspectWith(body);
    EXPECT_FALSE(inspection.ended);
    EXPECT_TRUE(absl::IsDataLoss(inspection.status)) << inspection.status;
    EXPECT_THAT(std::string(inspection.status.message()), HasSubstr(part));
  }

  ScratchFolder scratch_;
  PosixFileSystem fs_;
  const Inspector inspector_{fs_, LORSA_INSPECT_PROGRAM};
};

TEST_F(InspectorTest, ASetThatParsesIsFine) {
  WriteSet();
  const Inspection sealed = inspector_.InspectSet(Folder());
  EXPECT_EQ(sealed.status, absl::OkStatus());
  EXPECT_TRUE(sealed.ended);
  std::filesystem::rename(File("manifest.json"), File("kept"));
  EXPECT_EQ(inspector_.InspectSet(Folder()).status, absl::OkStatus());
  std::filesystem::rename(File("kept"), File("manifest.json"));
  // Not of the sealed set: nobody will read it.
  store::WriteBytes(File("shard-00009.h5"), "no HDF5");
  EXPECT_EQ(inspector_.InspectSet(Folder()).status, absl::OkStatus());
}

TEST_F(InspectorTest, EveryFileOfASetIsParsed) {
  WriteSet();
  for (const char* name :
       {"shard-00001.h5", "manifest.json", "checksums.h5", "attention.safetensors"}) {
    const std::string kept =
        std::filesystem::exists(File(name)) ? store::ReadBytes(File(name)) : "";
    store::WriteBytes(File(name), std::string(100, 'x'));
    const Inspection inspection = inspector_.InspectSet(Folder());
    EXPECT_TRUE(inspection.ended);
    EXPECT_TRUE(absl::IsDataLoss(inspection.status)) << name << inspection.status;
    EXPECT_THAT(std::string(inspection.status.message()), HasSubstr(File(name)));
    store::WriteBytes(File(name), kept);
    if (kept.empty()) std::filesystem::remove(File(name));
  }
  EXPECT_EQ(inspector_.InspectSet(Folder()).status, absl::OkStatus());
}

// A shard that came between the child's look and the server's own was parsed by the server alone.
TEST_F(InspectorTest, OnlyWhatTheChildParsedCanBeOpened) {
  WriteSet();
  const Inspection inspection = inspector_.InspectSet(Folder());
  store::WriteBytes(File("shard-00002.h5"), "no HDF5");
  for (const char* name : {"shard-00000.h5", "shard-00001.h5", "manifest.json", "checksums.h5"}) {
    EXPECT_TRUE(inspection.files->OpenForRead(File(name)).ok()) << name;
  }
  EXPECT_TRUE(absl::IsUnavailable(inspection.files->OpenForRead(File("shard-00002.h5")).status()));
}

TEST_F(InspectorTest, EveryFileOfACheckpointIsParsed) {
  store::WriteBytes(File("config.json"), "{}");
  const float one = 1;
  ASSERT_TRUE(WriteSafetensors(fs_, File("lorsa.safetensors"),
                               {{"w", "F32", {1}, {reinterpret_cast<const char*>(&one), 4}}})
                  .ok());
  EXPECT_EQ(inspector_.InspectCheckpoint(Folder()).status, absl::OkStatus());
  for (const char* name : {"config.json", "lorsa.safetensors", "other.json"}) {
    const std::string kept =
        std::filesystem::exists(File(name)) ? store::ReadBytes(File(name)) : "{}";
    store::WriteBytes(File(name), std::string(100, '['));
    const Inspection inspection = inspector_.InspectCheckpoint(Folder());
    EXPECT_TRUE(inspection.ended);
    EXPECT_THAT(std::string(inspection.status.message()), HasSubstr(File(name)));
    store::WriteBytes(File(name), kept);
  }
  ASSERT_EQ(::mkfifo(File("fifo.json").c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(inspector_.InspectCheckpoint(Folder()).status));
}

TEST_F(InspectorTest, AFileThatTakesMoreMemoryThanAllowedIsNamed) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer and a limit on address space do not go together";
#endif
  // 10 MB of which each byte pair becomes a value of 16 bytes and more.
  std::string header = "{\"w\":{\"dtype\":\"F32\",\"shape\":[";
  for (int i = 0; i < 5'000'000; ++i) header += "1,";
  header += "1]}}";
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i));
  store::WriteBytes(File("lorsa.safetensors"), bytes + header);
  const Inspector strict(fs_, LORSA_INSPECT_PROGRAM, {.memory_bytes = 128 << 20});
  const Inspection inspection = strict.InspectCheckpoint(Folder());
  EXPECT_FALSE(inspection.ended);
  EXPECT_THAT(std::string(inspection.status.message()),
              AllOf(HasSubstr(File("lorsa.safetensors")),
                    HasSubstr("within 128 MiB of memory and 30 s (it needs more memory)")));
  EXPECT_TRUE(inspector_.InspectCheckpoint(Folder()).ended);
}

TEST_F(InspectorTest, HarmThatCameToTheChildEndsInAnErrorThatNamesTheFile) {
  ExpectHarm("echo reading shard-00007.h5; kill -SEGV $$",
             File("shard-00007.h5") + ": could not be read");
  ExpectHarm("echo reading shard-00007.h5; kill -SEGV $$", "was killed by signal 11");
  ExpectHarm("echo reading shard-00007.h5; exit 1", "exited with status 1");
  ExpectHarm("exit 0", "exited with status 0");
  ExpectHarm("echo nonsense; exit 0", "could not be read");
  ExpectHarm("echo verdict 0; exit 7", "could not be read");
}

TEST_F(InspectorTest, AChildThatDoesNotEndIsKilled) {
  const absl::Time start = absl::Now();
  ExpectHarm("echo reading shard-00007.h5; exec sleep 600", "it came to no end");
  ExpectHarm("exec >&-; exec sleep 600", "it came to no end");  // says no more
  ExpectHarm("exec yes 'reading shard-00007.h5'",
             "it came to no end");  // and one that says too much
  ExpectHarm("head -c 100000000 /dev/zero; exec sleep 600", "it came to no end");
  EXPECT_LT(absl::Now() - start, absl::Seconds(60));
}

TEST_F(InspectorTest, TheChildInheritsNothing) {
  ::setenv("HDF5_PLUGIN_PATH", "/somewhere", 1);
  const Inspection inspection = InspectWith(
      "input=$(cat); files=$(ls /proc/self/fd | wc -l); "
      "echo \"verdict 15 $HDF5_PLUGIN_PATH,$input,$(env | grep -vc "
      "'^PWD=\\|^_=\\|^SHLVL='),$files\"");
  // 0, 1, 2, and that of ls itself.
  EXPECT_EQ(inspection.status, absl::DataLossError(",,0,4"));
}

TEST_F(InspectorTest, AChildThatCannotBeRunIsTheServersFault) {
  const Inspection inspection = Inspector(fs_, scratch_.Path("no-such")).InspectSet(Folder());
  EXPECT_FALSE(inspection.ended);
  EXPECT_EQ(inspection.status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(InspectWith("exit 2").status.code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace lorsa::server
