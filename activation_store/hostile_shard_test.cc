// Shards that are malformed on purpose: each gets an error that names the file and the reason, and
// none makes the process read outside the file, follow a link or take memory that it only claims.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <functional>

#include "activation_store/activation_set.h"
#include "activation_store/hdf5_library.h"
#include "activation_store/shard_reader.h"
#include "activation_store/test_sets.h"

namespace lorsa::store {
namespace {

using testing::HasSubstr;

constexpr hsize_t kSequences = 4, kContext = 6, kDModel = 5;

class HostileShardTest : public testing::Test {
 protected:
  void SetUp() override {
    WriteShardWithHdf5(shard_, TestSequences(description_, kSequences), description_,
                       Layout::kContiguous);
  }

  // Opens the good shard for writing and lets `change` spoil it.
  void Spoil(const std::function<void(hid_t file)>& change) {
    const Hdf5Lock lock;
    Hdf5Handle file(H5Fopen(shard_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    ASSERT_TRUE(file.ok());
    change(file.get());
  }

  // Puts a dataset of another making in the place of `name`.
  void Replace(const char* name, hid_t type, const std::vector<hsize_t>& dims,
               const std::function<void(hid_t properties)>& make = {}, bool write = true) {
    Spoil([&](hid_t file) {
      H5Ldelete(file, name, H5P_DEFAULT);
      Hdf5Handle space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
                       H5Sclose);
      Hdf5Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
      if (make) make(properties.get());
      Hdf5Handle dataset(
          H5Dcreate2(file, name, type, space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT),
          H5Dclose);
      ASSERT_TRUE(dataset.ok()) << Hdf5Reason();
      if (!write) return;
      const std::vector<char> zeros(1 << 16, 0);
      ASSERT_GE(H5Dwrite(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros.data()), 0);
    });
  }

  // Sealing must name the shard and give `reason`.
  void ExpectRefused(const std::string& reason) {
    const absl::Status status = SealSet(fs_, folder_, kTestNow, nullptr).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("shard-00000.h5: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(reason));
    EXPECT_FALSE(*fs_.Exists(JoinPath(folder_, "manifest.json")));
  }

  PosixFileSystem fs_;
  const std::string folder_ = TestFolder(fs_);
  const std::string shard_ = JoinPath(folder_, "shard-00000.h5");
  const Manifest description_ = TestDescription(ElementType::kFloat16, kContext, kDModel);
};

TEST_F(HostileShardTest, TheUnspoiledShardIsAccepted) {
  EXPECT_EQ(SealSet(fs_, folder_, kTestNow, nullptr).status(), absl::OkStatus());
}

TEST_F(HostileShardTest, AnExternalLinkIsNotFollowed) {
  Spoil([](hid_t file) {
    H5Ldelete(file, "mask", H5P_DEFAULT);
    H5Lcreate_external("/etc/passwd", "mask", file, "mask", H5P_DEFAULT, H5P_DEFAULT);
  });
  ExpectRefused("'mask' is a soft or external link");
}

TEST_F(HostileShardTest, ASoftLinkIsRefusedEvenBesideTheDatasets) {
  Spoil(
      [](hid_t file) { H5Lcreate_soft("/mask", file, "another_name", H5P_DEFAULT, H5P_DEFAULT); });
  ExpectRefused("'another_name' is a soft or external link");
}

TEST_F(HostileShardTest, CyclicGroupsAreNotWalked) {
  Spoil([](hid_t file) {
    Hdf5Handle group(H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
    H5Lcreate_hard(file, "/", group.get(), "root", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_hard(file, "g", group.get(), "self", H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_EQ(SealSet(fs_, folder_, kTestNow, nullptr).status(), absl::OkStatus());
}

TEST_F(HostileShardTest, AGroupIsNoDataset) {
  Spoil([](hid_t file) {
    H5Ldelete(file, "tokens", H5P_DEFAULT);
    H5Gclose(H5Gcreate2(file, "tokens", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  });
  ExpectRefused("'tokens' cannot be opened as a dataset");
}

TEST_F(HostileShardTest, AMissingDatasetIsNamed) {
  Spoil([](hid_t file) { H5Ldelete(file, "mhsa_output", H5P_DEFAULT); });
  ExpectRefused("has no dataset 'mhsa_output'");
}

TEST_F(HostileShardTest, TheRootGroupIsBounded) {
  Spoil([](hid_t file) {
    for (int i = 0; i < 61; ++i) {
      const std::string name = "g" + std::to_string(i);
      H5Gclose(H5Gcreate2(file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    }
  });
  ExpectRefused("its root group has 65 entries");
}

TEST_F(HostileShardTest, ExternalStorageIsRefused) {
  Replace(
      "mask", H5T_STD_U8LE, {kSequences, kContext},
      [](hid_t properties) {
        H5Pset_external(properties, "/etc/hostname", 0, kSequences * kContext);
      },
      /*write=*/false);
  ExpectRefused("'mask' keeps its data in other files");
}

TEST_F(HostileShardTest, VirtualAndCompactStorageAreRefused) {
  const auto compact = [](hid_t properties) { H5Pset_layout(properties, H5D_COMPACT); };
  Replace("mask", H5T_STD_U8LE, {kSequences, kContext}, compact);
  ExpectRefused("'mask' is neither contiguous nor chunked");
  const auto make_virtual = [](hid_t properties) {
    const hsize_t dims[] = {kSequences, kContext};
    Hdf5Handle space(H5Screate_simple(2, dims, nullptr), H5Sclose);
    H5Pset_virtual(properties, space.get(), "/etc/passwd", "mask", space.get());
  };
  Replace("mask", H5T_STD_U8LE, {kSequences, kContext}, make_virtual, /*write=*/false);
  ExpectRefused("'mask' is neither contiguous nor chunked");
}

// HDF5 would open the source files, here a FIFO that never answers, to tell how long such a dataset
// is.
TEST_F(HostileShardTest, TheSourcesOfAVirtualDatasetAreNotLookedFor) {
  const std::string fifo = JoinPath(folder_, "fifo-0");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const auto make_virtual = [&](hid_t properties) {
    const hsize_t dims[] = {0, kContext}, unlimited[] = {H5S_UNLIMITED, kContext};
    const hsize_t start[] = {0, 0}, count[] = {H5S_UNLIMITED, 1}, block[] = {1, kContext};
    Hdf5Handle space(H5Screate_simple(2, dims, unlimited), H5Sclose);
    ASSERT_GE(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start, nullptr, count, block), 0);
    const hsize_t source[] = {1, kContext};
    Hdf5Handle source_space(H5Screate_simple(2, source, nullptr), H5Sclose);
    const std::string pattern = JoinPath(folder_, "fifo-%b");
    ASSERT_GE(H5Pset_virtual(properties, space.get(), pattern.c_str(), "mask", source_space.get()),
              0);
  };
  Spoil([&](hid_t file) {
    H5Ldelete(file, "mask", H5P_DEFAULT);
    const hsize_t dims[] = {0, kContext}, unlimited[] = {H5S_UNLIMITED, kContext};
    Hdf5Handle space(H5Screate_simple(2, dims, unlimited), H5Sclose);
    Hdf5Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    make_virtual(properties.get());
    Hdf5Handle dataset(H5Dcreate2(file, "mask", H5T_STD_U8LE, space.get(), H5P_DEFAULT,
                                  properties.get(), H5P_DEFAULT),
                       H5Dclose);
    ASSERT_TRUE(dataset.ok()) << Hdf5Reason();
  });
  ExpectRefused("'mask' is neither contiguous nor chunked");
}

TEST_F(HostileShardTest, WhatIsWrittenBesideTheShardsFollowsNoLink) {
  const std::string outside = JoinPath(folder_, "outside");
  WriteBytes(outside, "precious");
  ASSERT_EQ(symlink("outside", JoinPath(folder_, "checksums.h5.tmp").c_str()), 0);
  ASSERT_EQ(symlink("outside", JoinPath(folder_, "manifest.json.tmp").c_str()), 0);
  const absl::Status status = SealSet(fs_, folder_, kTestNow, nullptr).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("manifest.json.tmp"));
  EXPECT_EQ(ReadBytes(outside), "precious");
}

TEST_F(HostileShardTest, AUserBlockIsRefused) {
  const std::string plain = ReadBytes(shard_);
  WriteBytes(shard_, std::string(512, 'u') + plain);  // where HDF5 looks for the file next
  ExpectRefused("has a user block");
}

TEST_F(HostileShardTest, AbsurdShapesAreRefusedBeforeMemoryIsTaken) {
  constexpr hsize_t kHuge = hsize_t{1} << 40;
  const auto late = [](hid_t properties) { H5Pset_alloc_time(properties, H5D_ALLOC_TIME_LATE); };
  Replace("mhsa_input", H5T_IEEE_F32LE, {kHuge, 4, 4}, late, /*write=*/false);
  ExpectRefused("was not written whole");
  const auto chunked = [](hid_t properties) {
    const hsize_t chunk[] = {1, 4, 4};
    H5Pset_chunk(properties, 3, chunk);
  };
  Replace("mhsa_input", H5T_IEEE_F32LE, {kHuge, 4, 4}, chunked, /*write=*/false);
  ExpectRefused("more than 16384 chunks");
  Replace("mhsa_input", H5T_IEEE_F32LE, {4, 4, 4, 4});
  ExpectRefused("has 4 dimensions");
}

TEST_F(HostileShardTest, HugeChunksAreRefused) {
  const auto chunked = [](hid_t properties) {
    const hsize_t chunk[] = {1 << 10, 1 << 10, 1 << 9};
    H5Pset_chunk(properties, 3, chunk);
    H5Pset_deflate(properties, 1);
  };
  Replace("mhsa_input", H5T_IEEE_F32LE, {1 << 12, 1 << 10, 1 << 9}, chunked, /*write=*/false);
  ExpectRefused("has chunks beyond the bound");
}

// Each of the 2048 sequences would decode the chunk that holds them all.
TEST_F(HostileShardTest, FilteredChunksOfManySequencesAreRefused) {
  const auto chunked = [](hid_t properties) {
    const hsize_t chunk[] = {1 << 11, 16, 32};
    H5Pset_chunk(properties, 3, chunk);
    H5Pset_deflate(properties, 1);
  };
  Replace("mhsa_input", H5T_IEEE_F32LE, {1 << 11, 16, 32}, chunked, /*write=*/false);
  ExpectRefused("decodes 4194304 bytes for each sequence of 2048");
}

// A dataset of a file's size times the number of its chunks, by an index that names one place
// again and again.
TEST_F(HostileShardTest, ChunksThatShareBytesAreRefused) {
  constexpr hsize_t kChunks = 2;
  const auto chunked = [](hid_t properties) {
    const hsize_t chunk[] = {kSequences / kChunks, kContext};
    H5Pset_chunk(properties, 2, chunk);
  };
  Replace("mask", H5T_STD_U8LE, {kSequences, kContext}, chunked);
  const auto contents = ReadHdf5Layout(fs_, shard_, {.datasets = {"mask"}});
  ASSERT_TRUE(contents.ok()) << contents.status();
  const std::vector<StoredChunk>& chunks = contents->datasets.at("mask").chunks;
  ASSERT_EQ(chunks.size(), kChunks);
  std::string file = ReadBytes(shard_);
  const auto bytes_of = [](uint64_t address) {
    return std::string(reinterpret_cast<const char*>(&address), sizeof(address));
  };
  const size_t at = file.find(bytes_of(chunks[1].offset));
  ASSERT_NE(at, std::string::npos);
  file.replace(at, sizeof(uint64_t), bytes_of(chunks[0].offset + 1));
  WriteBytes(shard_, file);
  ExpectRefused("'mask' has chunks that share bytes");
}

TEST_F(HostileShardTest, SequencesBeyondTheBoundAreRefused) {
  const auto chunked = [](hid_t properties) {
    const hsize_t chunk[] = {1, 1 << 12, 1 << 12};
    H5Pset_chunk(properties, 3, chunk);
    H5Pset_alloc_time(properties, H5D_ALLOC_TIME_EARLY);  // sparse: nothing is written
    H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER);
  };
  // Over 1 GiB a sequence, input and output together.
  Replace("mhsa_input", H5T_IEEE_F32LE, {1, 1 << 14, 1 << 14}, chunked, /*write=*/false);
  ExpectRefused("out of bounds");
}

TEST_F(HostileShardTest, ChunksNeverWrittenAreRefused) {
  const auto chunked = [](hid_t properties) {
    const hsize_t chunk[] = {1, kContext};
    H5Pset_chunk(properties, 2, chunk);
  };
  Replace("mask", H5T_STD_U8LE, {kSequences, kContext}, chunked, /*write=*/false);
  ExpectRefused("'mask' was not written whole");
}

TEST_F(HostileShardTest, OtherFiltersAreRefused) {
  const auto nbit = [](hid_t properties) {
    const hsize_t chunk[] = {1, kContext};
    H5Pset_chunk(properties, 2, chunk);
    H5Pset_nbit(properties);
  };
  Replace("mask", H5T_STD_U8LE, {kSequences, kContext}, nbit);
  ExpectRefused("'mask' uses filter 5");
}

// HDF5's own filter would grow its buffer to the 256 MiB that this chunk inflates to.
TEST_F(HostileShardTest, ADeflateBombIsNotInflated) {
  const std::string zeros(256 << 20, '\0');
  uLongf size = compressBound(zeros.size());
  std::string bomb(size, '\0');
  ASSERT_EQ(compress(reinterpret_cast<Bytef*>(bomb.data()), &size,
                     reinterpret_cast<const Bytef*>(zeros.data()), zeros.size()),
            Z_OK);
  const hsize_t dims[] = {512, 32, 16};  // 512 KiB as fp16, more than the bomb's stored size
  Spoil([&](hid_t file) {
    H5Ldelete(file, "mhsa_input", H5P_DEFAULT);
    Hdf5Handle space(H5Screate_simple(3, dims, nullptr), H5Sclose);
    Hdf5Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    H5Pset_chunk(properties.get(), 3, dims);
    H5Pset_deflate(properties.get(), 6);
    Hdf5Handle type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
    H5Tset_fields(type.get(), 15, 10, 5, 0, 10);
    H5Tset_size(type.get(), 2);
    H5Tset_ebias(type.get(), 15);
    Hdf5Handle dataset(H5Dcreate2(file, "mhsa_input", type.get(), space.get(), H5P_DEFAULT,
                                  properties.get(), H5P_DEFAULT),
                       H5Dclose);
    const hsize_t origin[] = {0, 0, 0};
    ASSERT_GE(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, 0, origin, size, bomb.data()), 0);
  });
  const auto contents = ReadHdf5Layout(fs_, shard_, {.datasets = {"mhsa_input"}});
  ASSERT_TRUE(contents.ok()) << contents.status();
  const DatasetReader reader(contents->datasets.at("mhsa_input"));
  std::string row(reader.row_bytes(), '\0');
  const absl::Status status = reader.ReadRow(*contents->file, 0, absl::MakeSpan(row));
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("longer than its dataset says"));
}

TEST_F(HostileShardTest, TypesThatTheFormatLacksAreRefused) {
  Replace("mask", H5T_STD_I8LE, {kSequences, kContext});
  ExpectRefused("'mask' has a type that the format lacks");
  Replace("mask", H5T_STD_I32LE, {kSequences, kContext});
  ExpectRefused("'mask' is int32 instead of uint8");
  Replace("mhsa_input", H5T_IEEE_F32BE, {kSequences, kContext, kDModel});
  ExpectRefused("'mhsa_input' has a type that the format lacks");
  Replace("mhsa_input", H5T_IEEE_F64LE, {kSequences, kContext, kDModel});
  ExpectRefused("'mhsa_input' has a type that the format lacks");
  Replace("mhsa_input", H5T_IEEE_F32LE, {kSequences, kContext, kDModel});
  ExpectRefused("'mhsa_output' is fp16 instead of fp32");
}

TEST_F(HostileShardTest, WrongShapesAreNamed) {
  Replace("mask", H5T_STD_U8LE, {kSequences, kContext + 1});
  ExpectRefused("'mask' has the shape [4, 7] instead of [4, 6]");
  Replace("mask", H5T_STD_U8LE, {kSequences - 1, kContext});
  ExpectRefused("'mask' has the shape [3, 6] instead of [4, 6]");
}

TEST_F(HostileShardTest, WhatIsNoHdf5FileIsRefused) {
  WriteBytes(shard_, "");
  ExpectRefused("not a readable HDF5 file");
  WriteBytes(shard_, std::string(5000, 'x'));
  ExpectRefused("not a readable HDF5 file");
}

TEST_F(HostileShardTest, ASymbolicLinkIsNotOpened) {
  ASSERT_EQ(rename(shard_.c_str(), (folder_ + "/elsewhere").c_str()), 0);
  ASSERT_EQ(symlink("elsewhere", shard_.c_str()), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(SealSet(fs_, folder_, kTestNow, nullptr).status()));
}

TEST_F(HostileShardTest, TheDescriptionIsCheckedLikeAManifest) {
  const auto describe = [&](const std::string& attribute) {
    WriteShardWithHdf5(shard_, TestSequences(description_, kSequences), description_,
                       Layout::kContiguous, attribute);
  };
  describe(R"({"layer": "three"})");
  ExpectRefused("attribute 'lorsa_set': 'layer'");
  describe("");
  Spoil([](hid_t file) {
    Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
    H5Aclose(H5Acreate2(file, "lorsa_set", H5T_STD_I32LE, space.get(), H5P_DEFAULT, H5P_DEFAULT));
  });
  ExpectRefused("attribute 'lorsa_set' is not one string");
  describe("");
  Spoil([](hid_t file) {
    Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Tset_size(type.get(), H5T_VARIABLE);
    Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
    H5Aclose(H5Acreate2(file, "lorsa_set", type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT));
  });
  ExpectRefused("store one of fixed length");
}

}  // namespace
}  // namespace lorsa::store
