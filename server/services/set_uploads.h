// Sets that arrive file by file from elsewhere (file_uploads.h), in sets/ID/ below the data folder.
// Registration (SealSet) then checks the shards together and writes the manifest.
#ifndef LORSA_SERVER_SERVICES_SET_UPLOADS_H_
#define LORSA_SERVER_SERVICES_SET_UPLOADS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "lorsa/v1/activation_service.pb.h"
#include "server/services/file_uploads.h"

namespace lorsa::server {

// Thread-safe; blocks on the disk. `id` everywhere is a valid id (base/identifiers.h).
class SetUploads {
 public:
  // `sets_folder` is there; sets arrive in folders of it. `fs` outlives this.
  SetUploads(FileSystem& fs, std::string sets_folder, int64_t disk_reserve_bytes)
      : fs_(fs), sets_folder_(std::move(sets_folder)), files_(fs, disk_reserve_bytes) {}

  std::string Folder(const std::string& id) const;

  // The id of which `folder` is the Folder, whatever path leads there; empty if there is none.
  std::string IdOf(const std::string& folder) const;

  // Takes the file that `start`, already checked by CheckUploadStart, announces, and holds `claim`
  // until it has come. Errors are those of FileUploads::Receive.
  absl::StatusOr<std::unique_ptr<FileReceiver>> Receive(const v1::UploadStart& start,
                                                        std::shared_ptr<void> claim);

  // What is there; empty if nothing is.
  absl::StatusOr<v1::Upload> Describe(const std::string& id) const;

  // FAILED_PRECONDITION naming a file of which a part is missing yet; NOT_FOUND if nothing was
  // sent.
  absl::Status CheckComplete(const std::string& id) const;

  // Ids of the sets that have a manifest, as registration writes one.
  absl::StatusOr<std::vector<std::string>> Sealed() const;

  // Removes the files of a set. OK if there are none.
  absl::Status Remove(const std::string& id);

 private:
  FileSystem& fs_;
  const std::string sets_folder_;
  FileUploads files_;
};

// INVALID_ARGUMENT naming every field that is wrong.
absl::Status CheckUploadStart(const v1::UploadStart& start);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_SET_UPLOADS_H_
