#include "activation_store/hdf5_layout.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "activation_store/hdf5_file_driver.h"
#include "activation_store/hdf5_library.h"
#include "base/status_macros.h"

namespace lorsa::store {
namespace {

constexpr uint64_t kMaxDatasetBytes = uint64_t{1} << 62;
constexpr uint64_t kMaxAttributeBytes = 64 << 10;

// The fields of a floating-point type: position of the sign, then position and size of exponent
// and mantissa, and the exponent's bias.
struct FloatFields {
  size_t sign, exponent, exponent_size, mantissa, mantissa_size, bias;
  bool operator==(const FloatFields&) const = default;
};
constexpr FloatFields kBFloat16Fields = {15, 7, 8, 0, 7, 127};
constexpr FloatFields kFloat16Fields = {15, 10, 5, 0, 10, 15};
constexpr FloatFields kFloat32Fields = {31, 23, 8, 0, 23, 127};

std::optional<DataType> RecogniseFloat(hid_t type, size_t size) {
  FloatFields fields;
  if (H5Tget_fields(type, &fields.sign, &fields.exponent, &fields.exponent_size, &fields.mantissa,
                    &fields.mantissa_size) < 0 ||
      H5Tget_norm(type) != H5T_NORM_IMPLIED) {
    return std::nullopt;
  }
  fields.bias = H5Tget_ebias(type);
  if (size == 2 && fields == kBFloat16Fields) return DataType::kBFloat16;
  if (size == 2 && fields == kFloat16Fields) return DataType::kFloat16;
  if (size == 4 && fields == kFloat32Fields) return DataType::kFloat32;
  return std::nullopt;
}

std::optional<DataType> RecogniseInteger(hid_t type, size_t size) {
  const H5T_sign_t sign = H5Tget_sign(type);
  if (size == 4 && sign == H5T_SGN_2) return DataType::kInt32;
  if (size == 1 && sign == H5T_SGN_NONE) return DataType::kUInt8;
  if (size == 8 && sign == H5T_SGN_NONE) return DataType::kUInt64;
  return std::nullopt;
}

std::optional<DataType> RecogniseType(hid_t type) {
  const H5T_class_t kind = H5Tget_class(type);
  if (kind != H5T_FLOAT && kind != H5T_INTEGER) return std::nullopt;
  const size_t size = H5Tget_size(type);
  if (H5Tget_precision(type) != 8 * size || H5Tget_offset(type) != 0) return std::nullopt;
  if (size > 1 && H5Tget_order(type) != H5T_ORDER_LE) return std::nullopt;
  return kind == H5T_FLOAT ? RecogniseFloat(type, size) : RecogniseInteger(type, size);
}

// Reads the layout of one open dataset. Every method runs under an Hdf5Lock.
class LayoutReader {
 public:
  LayoutReader(const std::string& path, const std::string& name, uint64_t file_bytes,
               Hdf5Source& source)
      : path_(path), name_(name), file_bytes_(file_bytes), source_(source) {}

  absl::StatusOr<DatasetLayout> Read(hid_t file) {
    dataset_ = Hdf5Handle(H5Dopen2(file, name_.c_str(), H5P_DEFAULT), H5Dclose);
    if (!dataset_.ok()) return Damaged("cannot be opened as a dataset: ", Hdf5Reason());
    properties_ = Hdf5Handle(H5Dget_create_plist(dataset_.get()), H5Pclose);
    if (!properties_.ok()) return Damaged("has unreadable properties: ", Hdf5Reason());
    // First: of a virtual dataset HDF5 would look for the other files to tell its shape.
    LORSA_RETURN_IF_ERROR(CheckStorage());
    LORSA_RETURN_IF_ERROR(ReadType());
    LORSA_RETURN_IF_ERROR(ReadDims());
    LORSA_RETURN_IF_ERROR(chunked_ ? ReadChunked() : ReadContiguous());
    return std::move(layout_);
  }

 private:
  template <typename... Parts>
  absl::Status Damaged(const Parts&... what) const {
    return DamagedFile(path_, absl::StrCat("dataset '", name_, "' ", what...));
  }

  absl::Status CheckStorage() {
    if (H5Pget_external_count(properties_.get()) != 0) {
      return Damaged("keeps its data in other files, which is refused; copy them into this one");
    }
    const H5D_layout_t layout = H5Pget_layout(properties_.get());
    if (layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED) {
      return Damaged("is neither contiguous nor chunked; virtual and compact storage are refused");
    }
    chunked_ = layout == H5D_CHUNKED;
    return absl::OkStatus();
  }

  absl::Status ReadType() {
    Hdf5Handle type(H5Dget_type(dataset_.get()), H5Tclose);
    if (!type.ok()) return Damaged("has an unreadable type: ", Hdf5Reason());
    const std::optional<DataType> recognised = RecogniseType(type.get());
    if (!recognised.has_value()) {
      return Damaged(
          "has a type that the format lacks; it knows little-endian bf16, fp16, fp32, int32, uint8 "
          "and uint64");
    }
    layout_.type = *recognised;
    return absl::OkStatus();
  }

  absl::Status ReadDims() {
    space_ = Hdf5Handle(H5Dget_space(dataset_.get()), H5Sclose);
    if (!space_.ok()) return Damaged("has an unreadable shape: ", Hdf5Reason());
    const int rank = H5Sget_simple_extent_ndims(space_.get());
    if (rank < 1 || rank > static_cast<int>(kMaxRank)) {
      return Damaged("has ", rank, " dimensions instead of 1 to ", kMaxRank);
    }
    hsize_t dims[kMaxRank];
    if (H5Sget_simple_extent_dims(space_.get(), dims, nullptr) != rank) {
      return Damaged("has an unreadable shape: ", Hdf5Reason());
    }
    layout_.dims.assign(dims, dims + rank);
    uint64_t bytes = DataTypeSize(layout_.type);
    for (uint64_t dim : layout_.dims) {
      if (dim == 0) return Damaged("is empty");
      if (__builtin_mul_overflow(bytes, dim, &bytes) || bytes > kMaxDatasetBytes) {
        return Damaged("claims an absurd shape");
      }
    }
    dataset_bytes_ = bytes;
    return absl::OkStatus();
  }

  absl::Status ReadContiguous() {
    const haddr_t offset = H5Dget_offset(dataset_.get());
    if (offset == HADDR_UNDEF) return NeverWritten();
    layout_.chunk_dims = layout_.dims;
    layout_.chunks = {{.offset = offset, .bytes = dataset_bytes_}};
    return CheckInsideFile(layout_.chunks[0]);
  }

  absl::Status ReadChunked() {
    LORSA_RETURN_IF_ERROR(ReadChunkDims());
    LORSA_RETURN_IF_ERROR(ReadFilters());
    if (!layout_.filters.empty()) LORSA_RETURN_IF_ERROR(CheckDecodingCost());
    hsize_t allocated = 0;
    if (H5Dget_num_chunks(dataset_.get(), space_.get(), &allocated) < 0) {
      return Damaged("has an unreadable chunk index: ", Hdf5Reason());
    }
    if (allocated != layout_.chunks.size()) return NeverWritten();
    for (size_t i = 0; i < layout_.chunks.size(); ++i) LORSA_RETURN_IF_ERROR(ReadChunk(i));
    return CheckNoOverlap();
  }

  // Also sizes `layout_.chunks`.
  absl::Status ReadChunkDims() {
    const int rank = static_cast<int>(layout_.dims.size());
    hsize_t dims[kMaxRank];
    if (H5Pget_chunk(properties_.get(), rank, dims) != rank) {
      return Damaged("has unreadable chunks: ", Hdf5Reason());
    }
    layout_.chunk_dims.assign(dims, dims + rank);
    chunk_bytes_ = DataTypeSize(layout_.type);
    uint64_t chunks = 1;
    for (int i = 0; i < rank; ++i) {
      if (dims[i] == 0 || __builtin_mul_overflow(chunk_bytes_, dims[i], &chunk_bytes_) ||
          chunk_bytes_ > kMaxChunkBytes) {
        return Damaged("has chunks beyond the bound of ", kMaxChunkBytes, " bytes");
      }
      const uint64_t along = (layout_.dims[i] - 1) / dims[i] + 1;
      if (__builtin_mul_overflow(chunks, along, &chunks) || chunks > kMaxChunks) {
        return Damaged("has more than ", kMaxChunks,
                       " chunks; make them larger, such as one for "
                       "each sequence");
      }
    }
    layout_.chunks.resize(chunks);
    return absl::OkStatus();
  }

  absl::Status ReadFilters() {
    unsigned options = 0;
    if (H5Pget_chunk_opts(properties_.get(), &options) < 0 || options != 0) {
      return Damaged("filters its edge chunks differently, which is refused");
    }
    const int count = H5Pget_nfilters(properties_.get());
    if (count < 0 || count > H5Z_MAX_NFILTERS) return Damaged("has unreadable filters");
    for (int i = 0; i < count; ++i) {
      unsigned flags, values[1], config;
      size_t n_values = 1;
      const H5Z_filter_t id = H5Pget_filter2(properties_.get(), static_cast<unsigned>(i), &flags,
                                             &n_values, values, 0, nullptr, &config);
      if (id == H5Z_FILTER_DEFLATE) {
        layout_.filters.push_back(Filter::kDeflate);
      } else if (id == H5Z_FILTER_FLETCHER32) {
        layout_.filters.push_back(Filter::kFletcher32);
      } else if (id == H5Z_FILTER_SHUFFLE && n_values >= 1 &&
                 values[0] == DataTypeSize(layout_.type)) {
        layout_.filters.push_back(Filter::kShuffle);
      } else {
        return Damaged("uses filter ", id, "; only deflate, shuffle and fletcher32 are read");
      }
    }
    return absl::OkStatus();
  }

  // `index`: in the row-major grid of chunks. H5Dget_chunk_info would walk through all chunks for
  // each.
  absl::Status ReadChunk(size_t index) {
    hsize_t at[kMaxRank];
    size_t rest = index;
    for (size_t i = layout_.dims.size(); i-- > 0;) {
      const uint64_t along = (layout_.dims[i] - 1) / layout_.chunk_dims[i] + 1;
      at[i] = rest % along * layout_.chunk_dims[i];
      rest /= along;
    }
    StoredChunk& chunk = layout_.chunks[index];
    hsize_t bytes = 0;
    if (H5Dget_chunk_storage_size(dataset_.get(), at, &bytes) < 0) return NeverWritten();
    chunk.bytes = bytes;
    // A filter may enlarge what it cannot compress, but not by more than this.
    const uint64_t max_bytes = chunk_bytes_ + chunk_bytes_ / 64 + 4096;
    const bool sized = layout_.filters.empty() ? bytes == chunk_bytes_ : bytes <= max_bytes;
    if (bytes == 0 || !sized) return Damaged("has a chunk of impossible size (", bytes, " bytes)");
    if (bytes > buffer_bytes_) {
      buffer_.reset(new char[bytes]);  // Not touched: no memory is behind it.
      buffer_bytes_ = bytes;
    }
    chunk.offset = source_.Locate([&] {
      H5Dread_chunk(dataset_.get(), H5P_DEFAULT, at, &chunk.skipped_filters, buffer_.get());
    });
    if (chunk.offset == HADDR_UNDEF) {
      return Damaged("has an unreadable chunk index: ", Hdf5Reason());
    }
    return CheckInsideFile(chunk);
  }

  absl::Status CheckDecodingCost() const {
    uint64_t decoded = chunk_bytes_;  // for one row; below kMaxChunks chunks of kMaxChunkBytes
    for (size_t i = 1; i < layout_.dims.size(); ++i) {
      decoded *= (layout_.dims[i] - 1) / layout_.chunk_dims[i] + 1;
    }
    const uint64_t row_bytes = dataset_bytes_ / layout_.dims[0];
    if (decoded <= kFreeDecodedBytes || decoded / kMaxDecodedRatio <= row_bytes) {
      return absl::OkStatus();
    }
    return Damaged("decodes ", decoded, " bytes for each sequence of ", row_bytes,
                   "; give it chunks of one sequence");
  }

  absl::Status CheckNoOverlap() const {
    std::vector<StoredChunk> sorted = layout_.chunks;
    std::sort(sorted.begin(), sorted.end(),
              [](const StoredChunk& a, const StoredChunk& b) { return a.offset < b.offset; });
    for (size_t i = 1; i < sorted.size(); ++i) {
      if (sorted[i].offset - sorted[i - 1].offset < sorted[i - 1].bytes) {
        return Damaged("has chunks that share bytes of the file");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckInsideFile(const StoredChunk& chunk) const {
    if (chunk.offset > file_bytes_ || chunk.bytes > file_bytes_ - chunk.offset) {
      return Damaged("lies beyond the end of the file (", file_bytes_,
                     " bytes), which is truncated");
    }
    return absl::OkStatus();
  }

  absl::Status NeverWritten() const {
    return Damaged("was not written whole; write every sequence of it");
  }

  const std::string& path_;
  const std::string& name_;
  const uint64_t file_bytes_;
  Hdf5Source& source_;
  Hdf5Handle dataset_, properties_, space_;
  bool chunked_ = false;
  uint64_t dataset_bytes_ = 0;
  uint64_t chunk_bytes_ = 0;  // decoded
  // What HDF5 believes to read chunks into.
  std::unique_ptr<char[]> buffer_;
  uint64_t buffer_bytes_ = 0;
  DatasetLayout layout_;
};

absl::StatusOr<Hdf5Handle> OpenFile(Hdf5Source& source, const std::string& path) {
  const Hdf5Handle access = source.Access();
  Hdf5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (!file.ok()) {
    return DamagedFile(path, absl::StrCat("not a readable HDF5 file: ", Hdf5Reason()));
  }
  Hdf5Handle creation(H5Fget_create_plist(file.get()), H5Pclose);
  hsize_t user_block = 0;
  if (!creation.ok() || H5Pget_userblock(creation.get(), &user_block) < 0 || user_block != 0) {
    return DamagedFile(path, "has a user block, which is refused; write the file without one");
  }
  return file;
}

herr_t StopAtLink(hid_t, const char* name, const H5L_info_t* info, void* out) {
  if (info->type == H5L_TYPE_HARD) return 0;
  *static_cast<std::string*>(out) = name;
  return 1;
}

absl::Status CheckRootGroup(hid_t file, const std::string& path, uint64_t max_entries) {
  H5G_info_t info;
  if (H5Gget_info(file, &info) < 0) {
    return DamagedFile(path, absl::StrCat("its root group cannot be read: ", Hdf5Reason()));
  }
  if (info.nlinks > max_entries) {
    return DamagedFile(path, absl::StrCat("its root group has ", info.nlinks,
                                          " entries, more than the bound of ", max_entries));
  }
  std::string link;
  const herr_t result = H5Literate(file, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, StopAtLink, &link);
  if (result < 0) {
    return DamagedFile(path, absl::StrCat("its root group cannot be read: ", Hdf5Reason()));
  }
  if (result > 0) {
    return DamagedFile(path,
                       absl::StrCat("'", link,
                                    "' is a soft or external link, which is refused; store the "
                                    "dataset itself under this name"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFixedText(hid_t attribute, hid_t type, const std::string& path) {
  const size_t size = H5Tget_size(type);
  if (size == 0 || size > kMaxAttributeBytes) {
    return DamagedFile(path, "its attribute is longer than 64 KiB");
  }
  std::string text(size, '\0');
  if (H5Aread(attribute, type, text.data()) < 0) {
    return DamagedFile(path, absl::StrCat("its attribute cannot be read: ", Hdf5Reason()));
  }
  text.resize(strnlen(text.data(), size));  // padded with zeros
  return text;
}

absl::StatusOr<std::optional<std::string>> ReadTextAttribute(hid_t file, const std::string& path,
                                                             const std::string& name) {
  const htri_t exists = H5Aexists(file, name.c_str());
  if (exists == 0) return std::nullopt;
  Hdf5Handle attribute(H5Aopen(file, name.c_str(), H5P_DEFAULT), H5Aclose);
  Hdf5Handle type(attribute.ok() ? H5Aget_type(attribute.get()) : H5I_INVALID_HID, H5Tclose);
  Hdf5Handle space(attribute.ok() ? H5Aget_space(attribute.get()) : H5I_INVALID_HID, H5Sclose);
  if (!type.ok() || !space.ok() || H5Tget_class(type.get()) != H5T_STRING ||
      H5Sget_simple_extent_npoints(space.get()) != 1) {
    return DamagedFile(path, absl::StrCat("its attribute '", name, "' is not one string"));
  }
  // The library does not check the heap in which it keeps text of variable length: a damaged file
  // would crash the process.
  if (H5Tis_variable_str(type.get()) != 0) {
    return DamagedFile(path, absl::StrCat("its attribute '", name,
                                          "' is a string of variable "
                                          "length; store one of fixed length (in h5py "
                                          "numpy.bytes_(text))"));
  }
  LORSA_ASSIGN_OR_RETURN(std::string text, ReadFixedText(attribute.get(), type.get(), path));
  return std::optional<std::string>(std::move(text));
}

absl::Status CheckLinked(hid_t file, const std::string& path, const std::string& name) {
  if (H5Lexists(file, name.c_str(), H5P_DEFAULT) > 0) return absl::OkStatus();
  return DamagedFile(path, absl::StrCat("has no dataset '", name, "'"));
}

}  // namespace

uint64_t DataTypeSize(DataType type) {
  switch (type) {
    case DataType::kUInt8:
      return 1;
    case DataType::kBFloat16:
    case DataType::kFloat16:
      return 2;
    case DataType::kFloat32:
    case DataType::kInt32:
      return 4;
    case DataType::kUInt64:
      return 8;
  }
  return 0;
}

absl::string_view DataTypeName(DataType type) {
  switch (type) {
    case DataType::kBFloat16:
      return "bf16";
    case DataType::kFloat16:
      return "fp16";
    case DataType::kFloat32:
      return "fp32";
    case DataType::kInt32:
      return "int32";
    case DataType::kUInt8:
      return "uint8";
    case DataType::kUInt64:
      return "uint64";
  }
  return "";
}

absl::StatusOr<Hdf5Contents> ReadHdf5Layout(FileSystem& fs, const std::string& path,
                                            const Hdf5Request& request) {
  Hdf5Contents contents;
  LORSA_ASSIGN_OR_RETURN(contents.file, fs.OpenForRead(path));
  const Hdf5Lock lock;
  Hdf5Source source(*contents.file);
  LORSA_ASSIGN_OR_RETURN(const Hdf5Handle file, OpenFile(source, path));
  LORSA_RETURN_IF_ERROR(CheckRootGroup(file.get(), path, request.max_root_entries));
  for (const std::string& name : request.datasets) {
    LORSA_RETURN_IF_ERROR(CheckLinked(file.get(), path, name));
    LayoutReader reader(path, name, contents.file->size(), source);
    LORSA_ASSIGN_OR_RETURN(contents.datasets[name], reader.Read(file.get()));
  }
  if (!request.string_attribute.empty()) {
    LORSA_ASSIGN_OR_RETURN(contents.string_attribute,
                           ReadTextAttribute(file.get(), path, request.string_attribute));
  }
  return contents;
}

}  // namespace lorsa::store
