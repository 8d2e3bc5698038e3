// For tests: small activation sets with known contents, written through SetWriter or, in every
// layout that a producer may choose, through HDF5 itself.
#ifndef LORSA_ACTIVATION_STORE_TEST_SETS_H_
#define LORSA_ACTIVATION_STORE_TEST_SETS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "activation_store/activation_set.h"
#include "activation_store/manifest.h"
#include "base/file_system.h"

namespace lorsa::store {

inline constexpr char kTestNow[] = "2026-11-30T12:00:00Z";

// A description without attention: element type, context and d_model given, the rest invented.
Manifest TestDescription(ElementType type, int64_t context, int64_t d_model);

// Sequence `index` of the test set: finite values that depend on every coordinate and on the
// element type, tokens that count up, mask 0 at position 0 and at the end of every third sequence.
Sequence TestSequence(const Manifest& description, int64_t index);

// Writes `sequences` test sequences and seals them.
Manifest WriteTestSet(FileSystem& fs, const std::string& folder, const Manifest& description,
                      int64_t sequences, int64_t sequences_per_shard);

enum class Layout {
  kContiguous,
  kOneSequenceChunks,
  kOddChunks,    // chunks that divide no dimension
  kDeflate,      // odd chunks, deflate
  kAllFilters,   // odd chunks, shuffle, deflate and fletcher32
  kChecksummed,  // odd chunks, fletcher32 before deflate
};

// Writes shard 0 of the same set with HDF5's own H5Dwrite, so that the reader is held against the
// library. `attribute` is the root attribute lorsa_set; none if empty.
void WriteShardWithHdf5(const std::string& path, const std::vector<Sequence>& sequences,
                        const Manifest& description, Layout layout,
                        const std::string& attribute = "");

// A new, empty folder for the running test; gone when the process ends.
std::string TestFolder(FileSystem& fs);

std::vector<Sequence> TestSequences(const Manifest& description, int64_t count);

// The bytes of a file, and back, for tests that damage it.
std::string ReadBytes(const std::string& path);
void WriteBytes(const std::string& path, const std::string& bytes);

bool SameBytes(const Sequence& a, const Sequence& b);

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_TEST_SETS_H_
