// For tests: a file system whose reads take as long as the test wants.
#ifndef LORSA_BASE_GATED_FILE_SYSTEM_H_
#define LORSA_BASE_GATED_FILE_SYSTEM_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/file_system.h"

namespace lorsa {

// Passes everything on to the real file system. While the gate is closed, whoever opens a file for
// reading or reads waits. Thread-safe.
class GatedFileSystem final : public FileSystem {
 public:
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
    absl::StatusOr<std::unique_ptr<ReadableFile>> file = posix_.OpenForRead(path);
    if (!file.ok()) return file;
    return std::make_unique<GatedFile>(*this, *std::move(file));
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path,
                                                       mode_t mode) override {
    return posix_.Create(path, mode);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path,
                                                              mode_t mode) override {
    return posix_.OpenForAppend(path, mode);
  }
  absl::Status SyncFile(const std::string& path) override { return posix_.SyncFile(path); }
  absl::Status SyncDirectory(const std::string& path) override {
    return posix_.SyncDirectory(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return posix_.Rename(from, to);
  }
  absl::Status CreateDirectories(const std::string& path) override {
    return posix_.CreateDirectories(path);
  }
  absl::Status Remove(const std::string& path) override { return posix_.Remove(path); }
  absl::Status RemoveAll(const std::string& path) override { return posix_.RemoveAll(path); }
  absl::StatusOr<bool> Exists(const std::string& path) override { return posix_.Exists(path); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return posix_.List(path);
  }
  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) override {
    return posix_.FreeBytes(path);
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
