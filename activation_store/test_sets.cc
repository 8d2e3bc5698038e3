#include "activation_store/test_sets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "activation_store/hdf5_library.h"
#include "activation_store/set_writer.h"
#include "base/scratch_folder.h"

namespace lorsa::store {
namespace {

// Bits of a small finite number in each type: sign, an exponent near 1, mantissa from `seed`.
template <typename Bits>
void AppendElement(std::string& out, Bits bits) {
  out.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
}

void AppendNumber(std::string& out, ElementType type, uint32_t seed) {
  const uint32_t sign = seed & 1, low = seed >> 1;
  switch (type) {
    case ElementType::kBFloat16:
      return AppendElement<uint16_t>(out, sign << 15 | (126 + low % 3) << 7 | (low % 128));
    case ElementType::kFloat16:
      return AppendElement<uint16_t>(out, sign << 15 | (14 + low % 3) << 10 | (low % 1024));
    case ElementType::kFloat32:
      return AppendElement<uint32_t>(out, sign << 31 | (126 + low % 3) << 23 | (low % (1 << 23)));
  }
}

std::string TestActivations(const Manifest& set, uint32_t seed) {
  std::string out;
  for (int64_t i = 0; i < set.context * set.d_model; ++i) {
    seed = seed * 1664525 + 1013904223;
    AppendNumber(out, set.element_type, seed >> 7);
  }
  return out;
}

Hdf5Handle MemoryType(ElementType type) {
  Hdf5Handle out(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  if (type == ElementType::kFloat32) return out;
  const bool bf16 = type == ElementType::kBFloat16;
  H5Tset_fields(out.get(), 15, bf16 ? 7 : 10, bf16 ? 8 : 5, 0, bf16 ? 7 : 10);
  H5Tset_size(out.get(), 2);
  H5Tset_ebias(out.get(), bf16 ? 127 : 15);
  return out;
}

void SetLayout(hid_t properties, Layout layout, const std::vector<hsize_t>& dims) {
  if (layout == Layout::kContiguous) return;
  std::vector<hsize_t> chunk = dims;
  if (layout == Layout::kOneSequenceChunks) {
    chunk[0] = 1;
  } else {
    for (size_t i = 0; i < dims.size(); ++i) chunk[i] = std::min<hsize_t>(dims[i], 3 + 2 * i);
  }
  H5Pset_chunk(properties, static_cast<int>(chunk.size()), chunk.data());
  if (layout == Layout::kChecksummed) H5Pset_fletcher32(properties);
  if (layout == Layout::kAllFilters) H5Pset_shuffle(properties);
  if (layout >= Layout::kDeflate) H5Pset_deflate(properties, 6);
  if (layout == Layout::kAllFilters) H5Pset_fletcher32(properties);
}

void WriteDataset(hid_t file, const char* name, hid_t type, const std::vector<hsize_t>& dims,
                  Layout layout, const std::string& bytes) {
  Hdf5Handle space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose);
  Hdf5Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  SetLayout(properties.get(), layout, dims);
  Hdf5Handle dataset(
      H5Dcreate2(file, name, type, space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT),
      H5Dclose);
  ASSERT_GE(H5Dwrite(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), 0);
}

void WriteTextAttribute(hid_t file, const std::string& text) {
  Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), text.size());
  Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  Hdf5Handle attribute(
      H5Acreate2(file, "lorsa_set", type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  ASSERT_GE(H5Awrite(attribute.get(), type.get(), text.data()), 0);
}

}  // namespace

Manifest TestDescription(ElementType type, int64_t context, int64_t d_model) {
  Manifest set;
  set.model = "test-model";
  set.model_revision = "r1";
  set.layer = 3;
  set.context = context;
  set.d_model = d_model;
  set.element_type = type;
  set.producer = "test_sets";
  return set;
}

Sequence TestSequence(const Manifest& set, int64_t index) {
  const uint32_t seed = static_cast<uint32_t>(index) * 2654435761u;
  Sequence sequence{.index = index,
                    .mhsa_input = TestActivations(set, seed),
                    .mhsa_output = TestActivations(set, seed + 1)};
  for (int64_t p = 0; p < set.context; ++p) {
    AppendElement<int32_t>(sequence.tokens, static_cast<int32_t>(1000 * index + p));
    const bool padding = index % 3 == 2 && p + 1 == set.context;
    sequence.mask.push_back(p == 0 || padding ? 0 : 1);
  }
  return sequence;
}

std::vector<Sequence> TestSequences(const Manifest& set, int64_t count) {
  std::vector<Sequence> sequences;
  for (int64_t i = 0; i < count; ++i) sequences.push_back(TestSequence(set, i));
  return sequences;
}

Manifest WriteTestSet(FileSystem& fs, const std::string& folder, const Manifest& description,
                      int64_t sequences, int64_t sequences_per_shard) {
  auto writer = SetWriter::Create(
      fs, folder, {.description = description, .sequences_per_shard = sequences_per_shard});
  EXPECT_TRUE(writer.ok()) << writer.status();
  for (int64_t i = 0; i < sequences; ++i) {
    EXPECT_EQ((*writer)->Append(TestSequence(description, i)), absl::OkStatus());
  }
  auto manifest = (*writer)->Seal(kTestNow);
  EXPECT_TRUE(manifest.ok()) << manifest.status();
  return *std::move(manifest);
}

void WriteShardWithHdf5(const std::string& path, const std::vector<Sequence>& sequences,
                        const Manifest& set, Layout layout, const std::string& attribute) {
  Sequence all;
  for (const Sequence& sequence : sequences) {
    all.mhsa_input += sequence.mhsa_input;
    all.mhsa_output += sequence.mhsa_output;
    all.tokens += sequence.tokens;
    all.mask += sequence.mask;
  }
  const hsize_t n = sequences.size(), context = set.context, d_model = set.d_model;
  const Hdf5Lock lock;
  Hdf5Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  const Hdf5Handle type = MemoryType(set.element_type);
  WriteDataset(file.get(), "mhsa_input", type.get(), {n, context, d_model}, layout, all.mhsa_input);
  WriteDataset(file.get(), "mhsa_output", type.get(), {n, context, d_model}, layout,
               all.mhsa_output);
  WriteDataset(file.get(), "tokens", H5T_STD_I32LE, {n, context}, layout, all.tokens);
  WriteDataset(file.get(), "mask", H5T_STD_U8LE, {n, context}, layout, all.mask);
  if (!attribute.empty()) WriteTextAttribute(file.get(), attribute);
}

std::string TestFolder(FileSystem& fs) {
  static const ScratchFolder all;
  const testing::TestInfo& info = *testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(info.test_suite_name()) + "." + info.name();
  std::replace(name.begin(), name.end(), '/', '_');
  const std::string folder = all.Path(name);
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(fs.CreateDirectories(folder).ok());
  return folder;
}

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

bool SameBytes(const Sequence& a, const Sequence& b) {
  return a.mhsa_input == b.mhsa_input && a.mhsa_output == b.mhsa_output && a.tokens == b.tokens &&
         a.mask == b.mask;
}

}  // namespace lorsa::store
