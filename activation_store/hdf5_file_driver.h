// HDF5 reading through a file that this process opened itself, so that the library opens none.
#ifndef LORSA_ACTIVATION_STORE_HDF5_FILE_DRIVER_H_
#define LORSA_ACTIVATION_STORE_HDF5_FILE_DRIVER_H_

#include "activation_store/hdf5_library.h"
#include "base/file_system.h"

namespace lorsa::store {

// File access properties of which H5Fopen, whatever name it is given, reads `file` and nothing
// else: what was checked when it was opened is what is read, and other files that an HDF5 file
// names (of external links, virtual datasets) are not found. Read only. `file` outlives the
// properties and what is opened with them. Under an Hdf5Lock, as is all that is done with it.
Hdf5Handle AccessThrough(const ReadableFile& file);

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_HDF5_FILE_DRIVER_H_
