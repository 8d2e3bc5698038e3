#include "trainer/kernels/buffer.h"

#include <sys/mman.h>

#include <new>

namespace lorsa::kernels {
namespace {

constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20;

size_t PageFor(size_t bytes) { return bytes >= kHugePage ? kHugePage : kPage; }

}  // namespace

size_t ReservedBytes(size_t bytes) {
  const size_t unit = PageFor(bytes);
  return (bytes + unit - 1) / unit * unit;
}

void RawBuffer::Unmap::operator()(void* memory) const { munmap(memory, bytes); }

void RawBuffer::Reserve(size_t bytes) {
  if (bytes <= memory_.get_deleter().bytes) return;
  memory_.reset();
  memory_.get_deleter().bytes = 0;
  const size_t rounded = ReservedBytes(bytes);
  void* memory = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  if (PageFor(bytes) == kHugePage)
    madvise(memory, rounded, MADV_HUGEPAGE);  // a wish: failure is harmless
  memory_ = std::unique_ptr<void, Unmap>(memory, Unmap{rounded});
}

}  // namespace lorsa::kernels
