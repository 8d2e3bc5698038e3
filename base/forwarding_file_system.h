// A file system that passes every operation on to another: the base of those that change a few.
#ifndef LORSA_BASE_FORWARDING_FILE_SYSTEM_H_
#define LORSA_BASE_FORWARDING_FILE_SYSTEM_H_

#include <memory>
#include <string>
#include <vector>

#include "base/file_system.h"

namespace lorsa {

// Thread-safe. `next` outlives it; a derived class may own `next` as a member.
class ForwardingFileSystem : public FileSystem {
 public:
  explicit ForwardingFileSystem(FileSystem& next) : next_(next) {}

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path,
                                                       mode_t mode) override {
    return next_.Create(path, mode);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path,
                                                              mode_t mode) override {
    return next_.OpenForAppend(path, mode);
  }
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override {
    return next_.OpenForRead(path);
  }
  absl::Status SyncFile(const std::string& path) override { return next_.SyncFile(path); }
  absl::Status SyncDirectory(const std::string& path) override { return next_.SyncDirectory(path); }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return next_.Rename(from, to);
  }
  absl::Status CreateDirectories(const std::string& path) override {
    return next_.CreateDirectories(path);
  }
  absl::Status Remove(const std::string& path) override { return next_.Remove(path); }
  absl::Status RemoveAll(const std::string& path) override { return next_.RemoveAll(path); }
  absl::StatusOr<bool> Exists(const std::string& path) override { return next_.Exists(path); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return next_.List(path);
  }
  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) override {
    return next_.FreeBytes(path);
  }

 protected:
  FileSystem& next() const { return next_; }

 private:
  FileSystem& next_;
};

}  // namespace lorsa

#endif  // LORSA_BASE_FORWARDING_FILE_SYSTEM_H_
