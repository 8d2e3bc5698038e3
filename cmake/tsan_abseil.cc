// Tells ThreadSanitizer about absl::Mutex and absl::CondVar: the distribution's Abseil is not
// instrumented, so without this every access under a mutex looks like a race. Linked only with
// -fsanitize=thread, where --wrap sends our calls of these functions here (LorsaTargets.cmake).
// Mutex::Await is not covered, since its conditions run on other threads: wait with CondVar.
#include <sanitizer/tsan_interface.h>

extern "C" {

void __real__ZN4absl7debian35Mutex4LockEv(void* mutex);
void __real__ZN4absl7debian35Mutex6UnlockEv(void* mutex);
void __real__ZN4absl7debian37CondVar4WaitEPNS0_5MutexE(void* variable, void* mutex);

// absl::Mutex::Lock()
void __wrap__ZN4absl7debian35Mutex4LockEv(void* mutex) {
  __real__ZN4absl7debian35Mutex4LockEv(mutex);
  __tsan_acquire(mutex);
}

// absl::Mutex::Unlock()
void __wrap__ZN4absl7debian35Mutex6UnlockEv(void* mutex) {
  __tsan_release(mutex);
  __real__ZN4absl7debian35Mutex6UnlockEv(mutex);
}

// absl::CondVar::Wait(absl::Mutex*)
void __wrap__ZN4absl7debian37CondVar4WaitEPNS0_5MutexE(void* variable, void* mutex) {
  __tsan_release(mutex);
  __real__ZN4absl7debian37CondVar4WaitEPNS0_5MutexE(variable, mutex);
  __tsan_acquire(mutex);
}

}  // extern "C"
