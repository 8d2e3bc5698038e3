// The wall around the HDF5 C library: its lock, its handles, its errors. Only files named hdf5_*
// call HDF5, and only while they hold an Hdf5Lock.
#ifndef LORSA_ACTIVATION_STORE_HDF5_LIBRARY_H_
#define LORSA_ACTIVATION_STORE_HDF5_LIBRARY_H_

#include <hdf5.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace lorsa::store {

// Holds the one lock of the process around HDF5, whose library has global state and may be built
// without any of its own. Taking it also keeps the library from printing errors and from loading
// filter plugins.
class ABSL_SCOPED_LOCKABLE Hdf5Lock {
 public:
  Hdf5Lock();
  ~Hdf5Lock();
  Hdf5Lock(const Hdf5Lock&) = delete;
  Hdf5Lock& operator=(const Hdf5Lock&) = delete;
};

// Owns an HDF5 identifier. Made and destroyed under an Hdf5Lock.
class Hdf5Handle {
 public:
  using Closer = herr_t (*)(hid_t);

  Hdf5Handle() = default;
  Hdf5Handle(hid_t id, Closer closer) : id_(id), closer_(closer) {}
  ~Hdf5Handle() { Close(); }
  Hdf5Handle(Hdf5Handle&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), closer_(other.closer_) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    if (this != &other) {
      Close();
      id_ = std::exchange(other.id_, H5I_INVALID_HID);
      closer_ = other.closer_;
    }
    return *this;
  }

  bool ok() const { return id_ >= 0; }
  hid_t get() const { return id_; }
  // False if the library could not close it, for a file: could not flush it. OK if it is closed.
  bool Close() { return id_ < 0 || closer_(std::exchange(id_, H5I_INVALID_HID)) >= 0; }

 private:
  hid_t id_ = H5I_INVALID_HID;
  Closer closer_ = nullptr;
};

// What the library says about the call that just failed: its innermost message. Call it before any
// other HDF5 function.
std::string Hdf5Reason();

// DATA_LOSS "`path`: `what`".
absl::Status DamagedFile(absl::string_view path, absl::string_view what);

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_HDF5_LIBRARY_H_
