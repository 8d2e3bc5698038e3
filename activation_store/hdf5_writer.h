// Writes an HDF5 file of the activation set format. HDF5 files do not survive a crash while they
// are written: write under a temporary name, Close, check, fsync, rename.
#ifndef LORSA_ACTIVATION_STORE_HDF5_WRITER_H_
#define LORSA_ACTIVATION_STORE_HDF5_WRITER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "activation_store/hdf5_layout.h"
#include "activation_store/hdf5_library.h"

namespace lorsa::store {

// One thread at a time. The same calls give the same bytes: the file holds no times.
class Hdf5Writer {
 public:
  // Creates the file, which must not be there: a link planted in its place is not followed.
  // RESOURCE_EXHAUSTED for no space and the like, as far as errno tells, else INTERNAL or
  // UNAVAILABLE, here and in every other method.
  static absl::StatusOr<std::unique_ptr<Hdf5Writer>> Create(const std::string& path);
  // Closes without a word: the file is to be thrown away.
  ~Hdf5Writer();

  // A dataset [0, row_dims…] that grows by rows, each an unfiltered chunk of its own.
  absl::Status AddRows(const std::string& name, DataType type,
                       const std::vector<uint64_t>& row_dims);
  // `bytes` is one row, little-endian and row-major.
  absl::Status AppendRow(const std::string& name, absl::string_view bytes);
  // A contiguous dataset, whole.
  absl::Status WriteWhole(const std::string& name, DataType type, const std::vector<uint64_t>& dims,
                          absl::string_view bytes);
  // A string attribute of the root group.
  absl::Status SetAttribute(const std::string& name, const std::string& text);
  // Flushes and closes. Call once, last.
  absl::Status Close();

 private:
  struct Rows {
    Hdf5Handle dataset;
    std::vector<uint64_t> dims;  // current extent
    uint64_t row_bytes = 0;
  };

  explicit Hdf5Writer(std::string path) : path_(std::move(path)) {}
  absl::Status Failed(absl::string_view what) const;

  std::string path_;
  Hdf5Handle file_;
  std::map<std::string, Rows> rows_;
};

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_HDF5_WRITER_H_
