#include "activation_store/hdf5_library.h"

#include "absl/strings/str_cat.h"

namespace lorsa::store {
namespace {

// HDF5's state is the process's, and so its lock is too.
ABSL_CONST_INIT absl::Mutex hdf5_mutex(absl::kConstInit);

herr_t KeepInnermost(unsigned n, const H5E_error2_t* error, void* out) {
  if (n == 0 && error->desc != nullptr) *static_cast<std::string*>(out) = error->desc;
  return 0;
}

}  // namespace

Hdf5Lock::Hdf5Lock() {
  hdf5_mutex.Lock();
  // Both are repeated each time because a thread-safe build keeps them per thread.
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);
}

Hdf5Lock::~Hdf5Lock() { hdf5_mutex.Unlock(); }

std::string Hdf5Reason() {
  std::string reason = "no reason given";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, KeepInnermost, &reason);
  return reason;
}

absl::Status DamagedFile(absl::string_view path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what));
}

}  // namespace lorsa::store
