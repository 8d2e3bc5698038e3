#include "activation_store/hdf5_file_driver.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/types/span.h"

namespace lorsa::store {
namespace {

constexpr haddr_t kMaxAddress = haddr_t{1} << 62;

// A C struct to HDF5: its own part first.
struct OpenFile {
  H5FD_t common;
  Hdf5Source* source;
  haddr_t end_of_allocation;
};

OpenFile* Of(H5FD_t* file) { return reinterpret_cast<OpenFile*>(file); }
const OpenFile* Of(const H5FD_t* file) { return reinterpret_cast<const OpenFile*>(file); }

}  // namespace

struct Hdf5SourceDriver {
  static H5FD_t* Open(const char* /*name*/, unsigned flags, hid_t access, haddr_t /*max*/) {
    auto* const* source = static_cast<Hdf5Source* const*>(H5Pget_driver_info(access));
    if (source == nullptr || (flags & (H5F_ACC_RDWR | H5F_ACC_TRUNC | H5F_ACC_CREAT)) != 0) {
      return nullptr;
    }
    return &(new OpenFile{.common = {}, .source = *source, .end_of_allocation = 0})->common;
  }

  static herr_t Close(H5FD_t* file) {
    delete Of(file);
    return 0;
  }

  static herr_t Query(const H5FD_t* /*file*/, unsigned long* features) {
    *features = H5FD_FEAT_ACCUMULATE_METADATA_READ | H5FD_FEAT_DATA_SIEVE;
    return 0;
  }

  static haddr_t EndOfAllocation(const H5FD_t* file, H5FD_mem_t /*type*/) {
    return Of(file)->end_of_allocation;
  }

  static herr_t SetEndOfAllocation(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t address) {
    Of(file)->end_of_allocation = address;
    return 0;
  }

  static haddr_t EndOfFile(const H5FD_t* file, H5FD_mem_t /*type*/) {
    return Of(file)->source->file_.size();
  }

  // Beyond the end of the file stand zeros, as with HDF5's own drivers.
  static herr_t Read(H5FD_t* file, H5FD_mem_t type, hid_t /*transfer*/, haddr_t address,
                     size_t bytes, void* buffer) {
    Hdf5Source& source = *Of(file)->source;
    if (source.locating_ && type == H5FD_MEM_DRAW) {
      source.located_ = address;
      return 0;
    }
    const uint64_t size = source.file_.size();
    const uint64_t there = address < size ? size - address : 0;
    const size_t readable = static_cast<size_t>(std::min<uint64_t>(there, bytes));
    char* out = static_cast<char*>(buffer);
    std::memset(out + readable, 0, bytes - readable);
    return source.file_.ReadAt(address, absl::MakeSpan(out, readable)).ok() ? 0 : -1;
  }

  static herr_t Write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, size_t, const void*) { return -1; }
};

namespace {

const H5FD_class_t kDriver = {.name = "lorsa_file",
                              .maxaddr = kMaxAddress,
                              .fc_degree = H5F_CLOSE_STRONG,
                              .fapl_size = sizeof(Hdf5Source*),
                              .open = Hdf5SourceDriver::Open,
                              .close = Hdf5SourceDriver::Close,
                              .query = Hdf5SourceDriver::Query,
                              .get_eoa = Hdf5SourceDriver::EndOfAllocation,
                              .set_eoa = Hdf5SourceDriver::SetEndOfAllocation,
                              .get_eof = Hdf5SourceDriver::EndOfFile,
                              .read = Hdf5SourceDriver::Read,
                              .write = Hdf5SourceDriver::Write,
                              .fl_map = H5FD_FLMAP_DICHOTOMY};

}  // namespace

Hdf5Handle Hdf5Source::Access() {
  // Registered once: the library keeps it as long as the process lives.
  static const hid_t driver = H5FDregister(&kDriver);
  Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  Hdf5Source* self = this;
  H5Pset_driver(access.get(), driver, &self);
  H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG);
  return access;
}

}  // namespace lorsa::store
