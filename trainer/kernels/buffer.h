// Memory that a kernel keeps from step to step.
#ifndef LORSA_TRAINER_KERNELS_BUFFER_H_
#define LORSA_TRAINER_KERNELS_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace lorsa::kernels {

// Grows when more is asked for, never shrinks; on huge pages where the system gives them, since
// tiles of a matrix lie many pages apart. Zero when it is taken from the system, so that padding
// that nobody writes stays finite.
class RawBuffer {
 public:
  // At least `bytes`, aligned to 64. Throws std::bad_alloc. What it held is lost if it has to grow.
  void* Get(size_t bytes);
  size_t bytes() const { return bytes_; }

 private:
  struct Unmap {
    size_t bytes;
    void operator()(void* memory) const;
  };
  size_t bytes_ = 0;
  std::unique_ptr<void, Unmap> memory_{nullptr, Unmap{0}};
};

template <typename T>
class Buffer {
 public:
  T* Get(int64_t elements) { return static_cast<T*>(raw_.Get(elements * sizeof(T))); }
  T* data() { return static_cast<T*>(raw_.Get(0)); }

 private:
  RawBuffer raw_;
};

}  // namespace lorsa::kernels

#endif  // LORSA_TRAINER_KERNELS_BUFFER_H_
