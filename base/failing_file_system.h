// For tests: a file system of which one kind of operation fails, to walk through the steps of a
// durable write.
#ifndef LORSA_BASE_FAILING_FILE_SYSTEM_H_
#define LORSA_BASE_FAILING_FILE_SYSTEM_H_

#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/forwarding_file_system.h"

namespace lorsa {

// Passes everything on to the real file system, but the operation called `operation` fails with
// RESOURCE_EXHAUSTED "injected" after it went well `successes` times, `failures` times. Operations:
// "create", "append", "sync", "close", "open", "syncfile", "syncdir", "rename", "mkdir", "list".
// Thread-safe.
class FailingFileSystem final : public ForwardingFileSystem {
 public:
  static constexpr int kForever = std::numeric_limits<int>::max();

  explicit FailingFileSystem(std::string operation, int successes = 0, int failures = kForever)
      : ForwardingFileSystem(posix_),
        operation_(std::move(operation)),
        successes_(successes),
        failures_(failures) {}

  // Whether the operation was called often enough to fail.
  bool failed() const { return failed_; }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path,
                                                       mode_t mode) override {
    if (Fails("create")) return Failure();
    auto file = next().Create(path, mode);
    if (!file.ok()) return file;
    return std::make_unique<FailingFile>(*this, *std::move(file));
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path,
                                                              mode_t mode) override {
    if (Fails("create")) return Failure();
    auto file = next().OpenForAppend(path, mode);
    if (!file.ok()) return file;
    return std::make_unique<FailingFile>(*this, *std::move(file));
  }
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override {
    if (Fails("open")) return Failure();
    return next().OpenForRead(path);
  }
  absl::Status SyncFile(const std::string& path) override {
    return Fails("syncfile") ? Failure() : next().SyncFile(path);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    return Fails("syncdir") ? Failure() : next().SyncDirectory(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return Fails("rename") ? Failure() : next().Rename(from, to);
  }
  absl::Status CreateDirectories(const std::string& path) override {
    return Fails("mkdir") ? Failure() : next().CreateDirectories(path);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    if (Fails("list")) return Failure();
    return next().List(path);
  }

 private:
  class FailingFile final : public WritableFile {
   public:
    FailingFile(FailingFileSystem& fs, std::unique_ptr<WritableFile> file)
        : fs_(fs), file_(std::move(file)) {}
    absl::Status Append(absl::string_view data) override {
      return fs_.Fails("append") ? Failure() : file_->Append(data);
    }
    absl::Status Sync() override { return fs_.Fails("sync") ? Failure() : file_->Sync(); }
    absl::Status Close() override { return fs_.Fails("close") ? Failure() : file_->Close(); }

   private:
    FailingFileSystem& fs_;
    std::unique_ptr<WritableFile> file_;
  };

  static absl::Status Failure() { return absl::ResourceExhaustedError("injected"); }

  bool Fails(const char* operation) {
    if (operation_ != operation) return false;
    const int failure = calls_++ - successes_;
    if (failure < 0 || failure >= failures_) return false;
    failed_ = true;
    return true;
  }

  const std::string operation_;
  const int successes_;
  const int failures_;
  std::atomic<int> calls_ = 0;  // of the operation
  std::atomic<bool> failed_ = false;
  PosixFileSystem posix_;
};

}  // namespace lorsa

#endif  // LORSA_BASE_FAILING_FILE_SYSTEM_H_
