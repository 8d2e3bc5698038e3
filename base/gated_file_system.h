// For tests: a file system whose reads take as long as the test wants.
#ifndef LORSA_BASE_GATED_FILE_SYSTEM_H_
#define LORSA_BASE_GATED_FILE_SYSTEM_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/forwarding_file_system.h"

namespace lorsa {

// Passes everything on to the real file system. While the gate is closed, whoever opens a file for
// reading or reads waits. Thread-safe.
class GatedFileSystem final : public ForwardingFileSystem {
 public:
  GatedFileSystem() : ForwardingFileSystem(posix_) {}

  void CloseGate() { SetOpen(false); }
  void OpenGate() { SetOpen(true); }
  // True once `count` readers wait; false if that has not happened after ten seconds.
  bool AwaitReaders(int count) {
    absl::MutexLock lock(&mu_);
    const auto enough = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return readers_ >= count; };
    return mu_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(10));
  }

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override {
    AwaitOpenGate();
    absl::StatusOr<std::unique_ptr<ReadableFile>> file = next().OpenForRead(path);
    if (!file.ok()) return file;
    return std::make_unique<GatedFile>(*this, *std::move(file));
  }

 private:
  class GatedFile final : public ReadableFile {
   public:
    GatedFile(GatedFileSystem& fs, std::unique_ptr<ReadableFile> file)
        : fs_(fs), file_(std::move(file)) {}
    absl::Status ReadAt(uint64_t offset, absl::Span<char> out) const override {
      fs_.AwaitOpenGate();
      return file_->ReadAt(offset, out);
    }
    uint64_t size() const override { return file_->size(); }

   private:
    GatedFileSystem& fs_;
    const std::unique_ptr<ReadableFile> file_;
  };

  void AwaitOpenGate() {
    absl::MutexLock lock(&mu_);
    ++readers_;
    mu_.Await(absl::Condition(&open_));
    --readers_;
  }

  void SetOpen(bool open) {
    absl::MutexLock lock(&mu_);
    open_ = open;
  }

  PosixFileSystem posix_;
  absl::Mutex mu_;
  bool open_ ABSL_GUARDED_BY(mu_) = true;
  int readers_ ABSL_GUARDED_BY(mu_) = 0;  // that wait
};

}  // namespace lorsa

#endif  // LORSA_BASE_GATED_FILE_SYSTEM_H_
