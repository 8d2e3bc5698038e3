// A folder as the child parsed it.
#ifndef LORSA_SERVER_INSPECTION_INSPECTED_FOLDER_H_
#define LORSA_SERVER_INSPECTION_INSPECTED_FOLDER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/file_version.h"
#include "base/forwarding_file_system.h"

namespace lorsa::server {

// A file system that opens files of one folder only as the child has parsed them: a file that came
// or changed since the inspection began is refused with UNAVAILABLE, so that this process parses
// nothing that the child has not. Files that this process wrote can be read again: those created
// through this file system, and those that a library wrote to a path which was emptied through it.
// All else is passed on. Thread-safe.
class InspectedFolder final : public ForwardingFileSystem {
 public:
  // Notes the version of each file of `folder`. `fs` outlives this. The inspection begins after.
  InspectedFolder(FileSystem& fs, std::string folder);

  // The child parsed the file of this name. Until it did, the file is refused.
  void Parsed(const std::string& name);
  // Of all files that were there, in bytes.
  int64_t size() const;
  // Whether each file that the child parsed is as it was.
  bool IsUnchanged() const;

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path,
                                                       mode_t mode) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path,
                                                              mode_t mode) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;

 private:
  struct File {
    FileVersion version;
    bool parsed = false;
  };
  void NoteVersions();
  void NoteWritten(const std::string& path);
  bool IsAsParsed(const std::string& path, const ReadableFile& file) const;

  const std::string folder_;
  std::map<std::string, File> files_;  // by path
  mutable absl::Mutex mutex_;
  std::set<std::string> written_ ABSL_GUARDED_BY(mutex_);  // paths
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_INSPECTION_INSPECTED_FOLDER_H_
