// HDF5 reading through a file that this process opened itself, so that the library opens none.
#ifndef LORSA_ACTIVATION_STORE_HDF5_FILE_DRIVER_H_
#define LORSA_ACTIVATION_STORE_HDF5_FILE_DRIVER_H_

#include "activation_store/hdf5_library.h"
#include "base/file_system.h"

namespace lorsa::store {

// A file as HDF5 sees it. Under an Hdf5Lock, as is all that is done with it.
class Hdf5Source {
 public:
  // `file` outlives this.
  explicit Hdf5Source(const ReadableFile& file) : file_(file) {}
  Hdf5Source(const Hdf5Source&) = delete;
  Hdf5Source& operator=(const Hdf5Source&) = delete;

  // File access properties with which H5Fopen, whatever name it is given, reads this file and
  // nothing else: what was checked when it was opened is what is read, and other files that an HDF5
  // file names (of external links, of virtual datasets) are not found. Read only. The source
  // outlives what is opened with them.
  Hdf5Handle Access();

  // Where in the file the library reads the raw data that `read` asks it for, which is not read
  // then. HADDR_UNDEF if it reads none. The one way by which HDF5 1.10 tells where a chunk is
  // without going through all of them.
  template <typename Read>
  haddr_t Locate(const Read& read) {
    located_ = HADDR_UNDEF;
    locating_ = true;
    read();
    locating_ = false;
    return located_;
  }

 private:
  friend struct Hdf5SourceDriver;

  const ReadableFile& file_;
  bool locating_ = false;
  haddr_t located_ = HADDR_UNDEF;
};

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_HDF5_FILE_DRIVER_H_
