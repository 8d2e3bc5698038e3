#include "activation_store/hdf5_writer.h"

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/status_macros.h"

namespace lorsa::store {
namespace {

// A 16-bit float type with the given fields, made by narrowing fp32: fields first, since a type
// cannot be smaller than its fields, then size, then bias.
Hdf5Handle Float16Type(size_t exponent, size_t exponent_size, size_t bias) {
  Hdf5Handle type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  H5Tset_fields(type.get(), 15, exponent, exponent_size, 0, exponent);
  H5Tset_size(type.get(), 2);
  H5Tset_ebias(type.get(), bias);
  return type;
}

Hdf5Handle TypeHandle(DataType type) {
  switch (type) {
    case DataType::kBFloat16:
      return Float16Type(7, 8, 127);
    case DataType::kFloat16:
      return Float16Type(10, 5, 15);
    case DataType::kFloat32:
      return Hdf5Handle(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
    case DataType::kInt32:
      return Hdf5Handle(H5Tcopy(H5T_STD_I32LE), H5Tclose);
    case DataType::kUInt8:
      return Hdf5Handle(H5Tcopy(H5T_STD_U8LE), H5Tclose);
    case DataType::kUInt64:
      return Hdf5Handle(H5Tcopy(H5T_STD_U64LE), H5Tclose);
  }
  return Hdf5Handle();
}

Hdf5Handle DatasetProperties() {
  Hdf5Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(properties.get(), false);
  H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER);  // Every byte is written.
  return properties;
}

}  // namespace

absl::Status Hdf5Writer::Failed(absl::string_view what) const {
  const int error = errno;  // The library does not clear it, so 0 was set before the call.
  const std::string operation = absl::StrCat(what, " (HDF5: ", Hdf5Reason(), ")");
  return ErrnoStatus(error != 0 ? error : EIO, operation, path_);
}

absl::StatusOr<std::unique_ptr<Hdf5Writer>> Hdf5Writer::Create(const std::string& path) {
  std::unique_ptr<Hdf5Writer> writer(new Hdf5Writer(path));
  const Hdf5Lock lock;
  errno = 0;
  Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG);
  // The file is new and this process's own, and some file systems have no locks.
  H5Pset_file_locking(access.get(), /*use_file_locking=*/false, /*ignore_when_disabled=*/true);
  Hdf5Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation.get(), false);
  writer->file_ =
      Hdf5Handle(H5Fcreate(path.c_str(), H5F_ACC_EXCL, creation.get(), access.get()), H5Fclose);
  if (!writer->file_.ok()) return writer->Failed("create");
  return writer;
}

Hdf5Writer::~Hdf5Writer() {
  const Hdf5Lock lock;
  rows_.clear();
  file_.Close();
}

absl::Status Hdf5Writer::AddRows(const std::string& name, DataType type,
                                 const std::vector<uint64_t>& row_dims) {
  const Hdf5Lock lock;
  errno = 0;
  Rows rows{.dims = {0}, .row_bytes = DataTypeSize(type)};
  std::vector<hsize_t> chunk = {1}, max = {H5S_UNLIMITED};
  for (uint64_t dim : row_dims) {
    rows.dims.push_back(dim);
    rows.row_bytes *= dim;
    chunk.push_back(dim);
    max.push_back(dim);
  }
  const int rank = static_cast<int>(chunk.size());
  const std::vector<hsize_t> dims(rows.dims.begin(), rows.dims.end());
  Hdf5Handle space(H5Screate_simple(rank, dims.data(), max.data()), H5Sclose);
  Hdf5Handle properties = DatasetProperties();
  H5Pset_chunk(properties.get(), rank, chunk.data());
  const Hdf5Handle file_type = TypeHandle(type);
  rows.dataset = Hdf5Handle(H5Dcreate2(file_.get(), name.c_str(), file_type.get(), space.get(),
                                       H5P_DEFAULT, properties.get(), H5P_DEFAULT),
                            H5Dclose);
  if (!rows.dataset.ok()) return Failed(absl::StrCat("create dataset '", name, "' in"));
  rows_[name] = std::move(rows);
  return absl::OkStatus();
}

absl::Status Hdf5Writer::AppendRow(const std::string& name, absl::string_view bytes) {
  const auto it = rows_.find(name);
  if (it == rows_.end() || bytes.size() != it->second.row_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("write ", path_, ": a row of '", name, "' has ", bytes.size(), " bytes"));
  }
  Rows& rows = it->second;
  const Hdf5Lock lock;
  errno = 0;
  std::vector<hsize_t> at(rows.dims.size(), 0);
  at[0] = rows.dims[0]++;
  const std::vector<hsize_t> dims(rows.dims.begin(), rows.dims.end());
  if (H5Dset_extent(rows.dataset.get(), dims.data()) < 0 ||
      H5Dwrite_chunk(rows.dataset.get(), H5P_DEFAULT, /*filters=*/0, at.data(), bytes.size(),
                     bytes.data()) < 0) {
    return Failed(absl::StrCat("write dataset '", name, "' of"));
  }
  return absl::OkStatus();
}

absl::Status Hdf5Writer::WriteWhole(const std::string& name, DataType type,
                                    const std::vector<uint64_t>& dims, absl::string_view bytes) {
  uint64_t expected = DataTypeSize(type);
  for (uint64_t dim : dims) expected *= dim;
  if (bytes.size() != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("write ", path_, ": dataset '", name, "' has ", bytes.size(), " bytes"));
  }
  const Hdf5Lock lock;
  errno = 0;
  const std::vector<hsize_t> extent(dims.begin(), dims.end());
  Hdf5Handle space(H5Screate_simple(static_cast<int>(dims.size()), extent.data(), nullptr),
                   H5Sclose);
  const Hdf5Handle properties = DatasetProperties();
  const Hdf5Handle file_type = TypeHandle(type);
  Hdf5Handle dataset(H5Dcreate2(file_.get(), name.c_str(), file_type.get(), space.get(),
                                H5P_DEFAULT, properties.get(), H5P_DEFAULT),
                     H5Dclose);
  if (!dataset.ok() ||
      H5Dwrite(dataset.get(), file_type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) < 0) {
    return Failed(absl::StrCat("write dataset '", name, "' of"));
  }
  return absl::OkStatus();
}

absl::Status Hdf5Writer::SetAttribute(const std::string& name, const std::string& text) {
  const Hdf5Lock lock;
  errno = 0;
  Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), text.size() + 1);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  Hdf5Handle attribute(
      H5Acreate2(file_.get(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose);
  if (!attribute.ok() || H5Awrite(attribute.get(), type.get(), text.c_str()) < 0) {
    return Failed(absl::StrCat("write attribute '", name, "' of"));
  }
  return absl::OkStatus();
}

absl::Status Hdf5Writer::Close() {
  const Hdf5Lock lock;
  errno = 0;
  bool closed = true;
  for (auto& [name, rows] : rows_) closed &= rows.dataset.Close();
  closed &= file_.Close();
  if (!closed) return Failed("close");
  return absl::OkStatus();
}

}  // namespace lorsa::store
