// Where exceptions of the standard library and of foreign libraries stop.
#ifndef LORSA_BASE_EXCEPTION_WALL_H_
#define LORSA_BASE_EXCEPTION_WALL_H_

#include <exception>
#include <new>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace lorsa {

// Returns `work()`, a Status or StatusOr. An exception becomes an error instead:
// RESOURCE_EXHAUSTED if the system refused memory or a thread, INTERNAL otherwise.
template <typename Work>
auto CatchExceptions(Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory; try again later");
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the system refused a resource (", error.what(), "); try again later"));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("unexpected exception: ", error.what()));
  }
}

}  // namespace lorsa

#endif  // LORSA_BASE_EXCEPTION_WALL_H_
