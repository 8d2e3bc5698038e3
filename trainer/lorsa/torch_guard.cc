#include "trainer/lorsa/torch_guard.h"

#include <c10/util/Exception.h>

#include <new>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace lorsa::trainer {
namespace {

// libtorch's CPU allocator reports exhaustion as a plain c10::Error with one of these texts.
bool SaysOutOfMemory(absl::string_view message) {
  return absl::StrContains(message, "not enough memory") ||
         absl::StrContains(message, "can't allocate memory") ||
         absl::StrContains(message, "out of memory");
}

absl::Status FromMessage(absl::string_view message) {
  if (SaysOutOfMemory(message)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "Memory ran out; use fewer sequences per step or fewer heads. (", message, ")"));
  }
  return absl::InternalError(absl::StrCat("libtorch failed: ", message));
}

}  // namespace

absl::Status GuardTorch(absl::FunctionRef<absl::Status()> body) {
  try {
    return body();
  } catch (const c10::Error& error) {
    return FromMessage(error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return FromMessage("out of memory");
  } catch (const std::exception& error) {
    return FromMessage(error.what());
  }
}

}  // namespace lorsa::trainer
