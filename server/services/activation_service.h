// lorsa.v1.ActivationService. The contract of each method stands in the proto.
#ifndef LORSA_SERVER_SERVICES_ACTIVATION_SERVICE_H_
#define LORSA_SERVER_SERVICES_ACTIVATION_SERVICE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "activation_store/activation_set.h"
#include "activation_store/reader_pool.h"
#include "base/file_system.h"
#include "lorsa/v1/activation_service.pb.h"
#include "server/catalog/catalog.h"
#include "server/inspection/inspector.h"
#include "server/rpc/call_lanes.h"
#include "server/rpc/executor.h"
#include "server/rpc/rpc_service.h"
#include "server/rpc/stream_slots.h"
#include "server/services/activation_roots.h"
#include "server/services/open_sets.h"
#include "server/services/set_folders.h"
#include "server/services/set_quarantine.h"
#include "server/services/set_uploads.h"

namespace lorsa::server {

struct ActivationServiceEnvironment {
  CallEnvironment calls;
  CallLanes lanes;
  Catalog& catalog;
  FileSystem& fs;
  ActivationRoots roots;
  std::function<absl::Time()> now;  // thread-safe
  SetQuarantine& quarantine;
  SetUploads& uploads;
  const Inspector& inspector;
  store::ReaderPool& readers;
  // Open at once; each takes up to 16 MiB.
  StreamBounds sequence_streams;
};

class ActivationService final : public RpcService {
 public:
  // All of the environment outlives the service; the service outlives the gRPC server.
  explicit ActivationService(ActivationServiceEnvironment environment);

  // What to tell the operator while clients have all streams of sequences; else empty.
  std::string StreamShortage() const { return sequence_streams_.Shortage(); }

  // Registers sets that were uploaded and sealed and that the catalog does not know, being older
  // than they are (server/jobs/data_adoption.h). What does not verify stays an upload; that is
  // logged. An error is one that may pass. Reads all of them; before the server serves.
  absl::Status AdoptUploads();

 private:
  // What each streaming method does first, on the executor: check the request, find the set.
  OpenedSource<v1::RegisterActivationSetResponse> OpenRegistration(
      const Caller&, const v1::RegisterActivationSetRequest& request, Waker waker);
  OpenedSource<v1::VerifyActivationSetResponse> OpenVerification(
      const Caller&, const v1::VerifyActivationSetRequest& request, Waker waker);
  // Raw: its messages are written without the generated class (see sequence_messages.h).
  OpenedSource<grpc::ByteBuffer> OpenSequences(const Caller& caller,
                                               const grpc::ByteBuffer& request, Waker waker);
  OpenedSource<v1::FileChunk> OpenAttentionWeights(const Caller&,
                                                   const v1::ReadAttentionWeightsRequest& request,
                                                   Waker);
  OpenedSink<v1::UploadShardRequest, v1::UploadedFile> OpenUpload(const Caller&);

  absl::Status Get(const Caller&, const v1::GetActivationSetRequest& request,
                   v1::ActivationSet& response);
  absl::Status List(const Caller&, const v1::ListActivationSetsRequest& request,
                    v1::ListActivationSetsResponse& response);
  absl::Status Quarantine(const Caller&, const v1::QuarantineActivationSetRequest& request,
                          v1::ActivationSet& response);
  absl::Status Delete(const Caller&, const v1::DeleteActivationSetRequest& request,
                      google::protobuf::Empty&);
  absl::Status GetUpload(const Caller&, const v1::GetUploadRequest& request, v1::Upload& response);

  // Where the files of a set to be registered lie.
  struct Place {
    std::string folder;     // as sets on it and uploads into it name it
    std::string upload_id;  // of the upload whose folder it is; empty if it is none
    bool uploaded = false;  // registered as that upload
  };
  Place PlaceOfUpload(const std::string& id) const;
  absl::StatusOr<Place> PlaceOf(const v1::RegisterActivationSetRequest& request);

  // The passes themselves, minutes long.
  absl::Status AdoptUpload(const std::string& id);
  absl::StatusOr<v1::RegisterActivationSetResponse> Register(
      const std::string& id, const Place& place, const store::ProgressFunction& progress);
  absl::StatusOr<v1::VerifyActivationSetResponse> Verify(const v1::ActivationSet& set,
                                                         const store::ProgressFunction& progress);

  // Removes a set from the catalog. FAILED_PRECONDITION (SET_IN_USE) while a job needs it.
  absl::Status Forget(const std::string& id);
  // FAILED_PRECONDITION (SET_IN_USE) if another set than `id` has its files in the folder of the
  // upload `id`.
  absl::Status CheckFilesAreNotShared(const std::string& id);
  // What UploadShard does with the message that names the file.
  absl::StatusOr<std::unique_ptr<FileReceiver>> Receive(const v1::UploadStart& start);
  // For reading. Errors are those of RefuseIfQuarantined and of OpenSets::Get; a set that turns out
  // to be damaged is quarantined.
  absl::StatusOr<std::shared_ptr<const store::ActivationSet>> OpenSet(
      const v1::ActivationSet& registered);
  // FAILED_PRECONDITION (SET_QUARANTINED), and jobs that began to train on it since are paused.
  absl::Status RefuseIfQuarantined(const v1::ActivationSet& set);
  // `status`, after the set was quarantined if that says that it is damaged.
  absl::Status NoteDamage(const v1::ActivationSet& set, absl::Status status);

  // The registered set of that resource name.
  absl::StatusOr<v1::ActivationSet> Find(const std::string& name);
  // The same; FAILED_PRECONDITION (SET_CHANGED) unless it has that manifest, if one is named.
  absl::StatusOr<v1::ActivationSet> Find(const std::string& name,
                                         const std::string& manifest_sha256);

  const ActivationServiceEnvironment env_;
  OpenSets open_sets_;
  FolderClaims folder_claims_;
  StreamSlots sequence_streams_;
  // One pass of each kind at a time: the disk bounds them, and two registrations of one folder must
  // not both write its manifest. Last, so that passes end before what they use.
  Executor registrations_;
  Executor verifications_;
  Executor uploads_;  // whole files are compared with their sha256 here
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_ACTIVATION_SERVICE_H_
