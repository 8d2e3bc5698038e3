// Memory that a kernel keeps from step to step.
#ifndef LORSA_TRAINER_KERNELS_BUFFER_H_
#define LORSA_TRAINER_KERNELS_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace lorsa::kernels {

// What a RawBuffer takes for so many bytes: whole pages.
size_t ReservedBytes(size_t bytes);

// Aligned to a page, on huge pages where the system gives them: tiles of a matrix lie many pages
// apart. Zero when it is taken from the system.
class RawBuffer {
 public:
  // Makes room for `bytes`; never shrinks. What it held is lost if it has to grow. Throws
  // std::bad_alloc.
  void Reserve(size_t bytes);
  void* data() const { return memory_.get(); }

 private:
  struct Unmap {
    size_t bytes;
    void operator()(void* memory) const;
  };
  std::unique_ptr<void, Unmap> memory_{nullptr, Unmap{0}};
};

template <typename T>
class Buffer {
 public:
  void Reserve(int64_t elements) { raw_.Reserve(elements * sizeof(T)); }
  T* data() const { return static_cast<T*>(raw_.data()); }

 private:
  RawBuffer raw_;
};

}  // namespace lorsa::kernels

#endif  // LORSA_TRAINER_KERNELS_BUFFER_H_
