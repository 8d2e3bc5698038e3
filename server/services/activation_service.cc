#include "server/services/activation_service.h"

#include <google/protobuf/util/time_util.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <spdlog/spdlog.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "activation_store/sequence_stream.h"
#include "base/error_details.h"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "job_spec/describe_set.h"
#include "server/jobs/checkpoint_files.h"
#include "server/services/file_chunk_source.h"
#include "server/services/paging.h"
#include "server/services/sequence_messages.h"
#include "server/services/set_pass.h"

namespace lorsa::server {
namespace {

constexpr size_t kOpenSets = 4;
// A quarter of the usual soft limit on descriptors, 1,024, in case it could not be raised.
static_assert(kOpenSets * store::kMaxOpenFilesPerSet <= 256);
constexpr int64_t kBufferedBytes = 8 << 20;
constexpr int kDefaultReaderThreads = 2;
constexpr int kUploadThreads = 2;

std::string Rfc3339(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

// Whether a registration failed because of what was uploaded, so that the next one fails as well.
bool IsRefusal(const absl::Status& status) {
  return IsDamage(status) || absl::IsFailedPrecondition(status) || absl::IsAlreadyExists(status);
}

absl::StatusOr<std::string> SetId(const std::string& name) {
  absl::StatusOr<std::string> id = IdFromName("activationSets", name);
  if (!id.ok()) return ForField(id.status(), "name");
  return id;
}

absl::StatusOr<v1::StreamSequencesRequest> ParseSequencesRequest(grpc::ByteBuffer bytes) {
  v1::StreamSequencesRequest request;
  if (!grpc::SerializationTraits<v1::StreamSequencesRequest>::Deserialize(&bytes, &request).ok()) {
    return absl::InvalidArgumentError("the request is not a StreamSequencesRequest");
  }
  return request;
}

absl::StatusOr<store::StreamOptions> OptionsOf(const v1::StreamSequencesRequest& request) {
  store::StreamOptions options;
  if (request.subset() == v1::SEQUENCE_SUBSET_TRAINING) {
    options.subset = store::Subset::kTraining;
  } else if (request.subset() == v1::SEQUENCE_SUBSET_HELD_OUT) {
    options.subset = store::Subset::kHeldOut;
  } else {
    return InvalidField("subset", "must be SEQUENCE_SUBSET_TRAINING or SEQUENCE_SUBSET_HELD_OUT");
  }
  options.seed = request.seed();
  options.cursor = request.cursor();
  options.limit = request.limit();
  options.reader_threads =
      request.reader_threads() == 0 ? kDefaultReaderThreads : request.reader_threads();
  options.max_buffered_bytes = kBufferedBytes;
  return options;
}

// Tells of outliers in the set's message and in the log.
void NoteOutliers(const store::OutlierTargets& outliers, v1::ActivationSet& set) {
  if (outliers.count == 0) return;
  *set.mutable_outlier_targets() = DescribeOutliers(outliers);
  spdlog::warn("event=outlier_targets set={} message=\"{}\"", set.name(),
               store::OutliersText(outliers, set.mean_output_norm()));
}

// A source that holds a slot as long as it lives, and hands errors through `note_error`, which may
// add to what is known of the set, before the client hears of them.
template <typename Message>
class WatchedSource final : public StreamSource<Message> {
 public:
  using NoteError = std::function<absl::Status(absl::Status)>;

  WatchedSource(std::shared_ptr<void> slot, std::unique_ptr<StreamSource<Message>> source,
                NoteError note_error)
      : slot_(std::move(slot)), source_(std::move(source)), note_error_(std::move(note_error)) {}
  absl::StatusOr<Pulled> Next(Message& message) override {
    absl::StatusOr<Pulled> pulled = source_->Next(message);
    if (!pulled.ok()) return note_error_(pulled.status());
    return pulled;
  }

 private:
  const std::shared_ptr<void> slot_;
  const std::unique_ptr<StreamSource<Message>> source_;
  const NoteError note_error_;
};

// What the reader of a file says of one that is not the registered one: to its set that is damage.
absl::Status DamageIfChanged(absl::Status status) {
  return absl::IsAborted(status) ? absl::DataLossError(status.message()) : status;
}

}  // namespace

ActivationService::ActivationService(ActivationServiceEnvironment environment)
    : RpcService("lorsa.v1.ActivationService", environment.calls),
      env_(std::move(environment)),
      open_sets_(env_.inspector, kOpenSets),
      sequence_streams_("streams of sequences", env_.sequence_streams),
      registrations_(1),
      verifications_(1),
      uploads_(kUploadThreads) {
  using Self = ActivationService;
  const CallLanes& lanes = env_.lanes;
  ServerStreaming({"RegisterActivationSet", Access::kAnyone, lanes.files}, *this,
                  &Self::OpenRegistration);
  Unary({"GetActivationSet", Access::kAnyone, lanes.reads}, *this, &Self::Get);
  Unary({"ListActivationSets", Access::kAnyone, lanes.reads}, *this, &Self::List);
  ServerStreaming({"VerifyActivationSet", Access::kAnyone, lanes.files}, *this,
                  &Self::OpenVerification);
  ServerStreaming({"StreamSequences", Access::kAnyone, lanes.files}, *this, &Self::OpenSequences,
                  &lanes.data);
  ServerStreaming({"ReadAttentionWeights", Access::kAnyone, lanes.files}, *this,
                  &Self::OpenAttentionWeights, &lanes.downloads);
  Unary({"QuarantineActivationSet", Access::kAnyone, lanes.writes}, *this, &Self::Quarantine);
  Unary({"DeleteActivationSet", Access::kAnyone, lanes.files}, *this, &Self::Delete);
  ClientStreaming({"UploadShard", Access::kAnyone, lanes.data}, *this, uploads_, &Self::OpenUpload);
  Unary({"GetUpload", Access::kAnyone, lanes.data}, *this, &Self::GetUpload);
}

OpenedSource<v1::RegisterActivationSetResponse> ActivationService::OpenRegistration(
    const Caller&, const v1::RegisterActivationSetRequest& request, Waker waker) {
  const std::string& id = request.activation_set_id();
  LORSA_RETURN_IF_ERROR(ForField(ValidateId("activation set id", id), "activation_set_id"));
  LORSA_ASSIGN_OR_RETURN(const Place place, PlaceOf(request));
  // Known before the long pass; CreateActivationSet decides after it.
  const absl::StatusOr<v1::ActivationSet> taken = env_.catalog.GetActivationSet(id);
  if (taken.ok() && taken->path() != place.folder) {
    return WithReason(absl::AlreadyExistsError(absl::StrCat("activation set '", id,
                                                            "' is registered with the folder ",
                                                            taken->path(), ": choose another id")),
                      "ACTIVATION_SET_EXISTS", {{"activation_set", id}});
  }
  return std::make_unique<SetPass<v1::RegisterActivationSetResponse>>(
      registrations_, std::move(waker), env_.now,
      [this, id, place](const store::ProgressFunction& progress) {
        return Register(id, place, progress);
      });
}

ActivationService::Place ActivationService::PlaceOfUpload(const std::string& id) const {
  return {.folder = env_.uploads.Folder(id), .upload_id = id, .uploaded = true};
}

absl::StatusOr<ActivationService::Place> ActivationService::PlaceOf(
    const v1::RegisterActivationSetRequest& request) {
  if (request.path().empty()) return PlaceOfUpload(request.activation_set_id());
  Place place;
  LORSA_ASSIGN_OR_RETURN(place.folder, env_.roots.Resolve(request.path()));
  place.upload_id = env_.uploads.IdOf(place.folder);
  if (!place.upload_id.empty()) place.folder = env_.uploads.Folder(place.upload_id);
  LORSA_ASSIGN_OR_RETURN(const std::vector<v1::ActivationSet> known,
                         SetsIn(env_.catalog, place.folder));
  if (!known.empty()) place.folder = known.front().path();
  return place;
}

absl::StatusOr<v1::RegisterActivationSetResponse> ActivationService::Register(
    const std::string& id, const Place& place, const store::ProgressFunction& progress) {
  // No file comes or goes until the set is in the catalog.
  LORSA_ASSIGN_OR_RETURN(const auto claim, folder_claims_.TakeAlone(place.folder));
  if (!place.upload_id.empty()) {
    LORSA_RETURN_IF_ERROR(env_.uploads.CheckComplete(place.upload_id));
  }
  const Inspection inspection = env_.inspector.InspectSet(place.folder);
  LORSA_RETURN_IF_ERROR(inspection.status);
  LORSA_ASSIGN_OR_RETURN(
      const store::SealedSet sealed,
      store::SealSet(*inspection.files, place.folder, Rfc3339(env_.now()), progress));
  LORSA_ASSIGN_OR_RETURN(const InspectedSet opened, OpenInspected(env_.inspector, place.folder));
  v1::ActivationSet set = DescribeSet(opened.set->manifest(), id);
  set.set_path(place.folder);
  set.set_uploaded(place.uploaded);
  set.set_state(v1::ACTIVATION_SET_STATE_READY);
  set.set_manifest_sha256(opened.set->manifest_sha256());
  NoteOutliers(sealed.outliers, set);
  *set.mutable_register_time() =
      google::protobuf::util::TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(env_.now()));
  *set.mutable_verify_time() = set.register_time();
  v1::RegisterActivationSetResponse response;
  LORSA_ASSIGN_OR_RETURN(*response.mutable_activation_set(), env_.catalog.CreateActivationSet(set));
  return response;
}

absl::Status ActivationService::AdoptUploads() {
  LORSA_ASSIGN_OR_RETURN(const std::vector<std::string> ids, env_.uploads.Sealed());
  for (const std::string& id : ids) {
    absl::Status status = env_.catalog.GetActivationSet(id).status();
    if (absl::IsNotFound(status)) status = AdoptUpload(id);
    if (!status.ok() && !IsRefusal(status)) return status;
  }
  return absl::OkStatus();
}

absl::Status ActivationService::AdoptUpload(const std::string& id) {
  const absl::Status adopted =
      Register(id, PlaceOfUpload(id), [](int64_t, int64_t) { return true; }).status();
  spdlog::warn("event=set_adopted set={} status=\"{}\"", id, adopted.ToString());
  return adopted;
}

OpenedSource<v1::VerifyActivationSetResponse> ActivationService::OpenVerification(
    const Caller&, const v1::VerifyActivationSetRequest& request, Waker waker) {
  LORSA_ASSIGN_OR_RETURN(v1::ActivationSet set, Find(request.name()));
  return std::make_unique<SetPass<v1::VerifyActivationSetResponse>>(
      verifications_, std::move(waker), env_.now,
      [this, set = std::move(set)](const store::ProgressFunction& progress) {
        return Verify(set, progress);
      });
}

absl::StatusOr<v1::VerifyActivationSetResponse> ActivationService::Verify(
    const v1::ActivationSet& set, const store::ProgressFunction& progress) {
  LORSA_ASSIGN_OR_RETURN(const store::VerificationReport report,
                         env_.quarantine.Verify(set, progress));
  v1::VerifyActivationSetResponse response;
  v1::VerificationReport& message = *response.mutable_report();
  message.set_ok(report.ok());
  message.set_sequences_checked(report.sequences_checked);
  for (const std::string& problem : report.problems) {
    message.add_problems(Utf8Prefix(problem, kMaxProblemBytes));
  }
  return response;
}

OpenedSource<grpc::ByteBuffer> ActivationService::OpenSequences(const Caller& caller,
                                                                const grpc::ByteBuffer& bytes,
                                                                Waker waker) {
  LORSA_ASSIGN_OR_RETURN(const v1::StreamSequencesRequest request, ParseSequencesRequest(bytes));
  LORSA_ASSIGN_OR_RETURN(const store::StreamOptions options, OptionsOf(request));
  LORSA_ASSIGN_OR_RETURN(const v1::ActivationSet registered,
                         Find(request.name(), request.manifest_sha256()));
  LORSA_ASSIGN_OR_RETURN(std::shared_ptr<void> slot, sequence_streams_.Take(caller));
  LORSA_ASSIGN_OR_RETURN(const auto set, OpenSet(registered));
  LORSA_ASSIGN_OR_RETURN(auto stream,
                         store::SequenceStream::Open(set, env_.readers, options, std::move(waker)));
  return std::make_unique<WatchedSource<grpc::ByteBuffer>>(
      std::move(slot), std::make_unique<SequenceMessageSource>(set->manifest(), std::move(stream)),
      [this, registered](absl::Status status) {
        return NoteDamage(registered, std::move(status));
      });
}

OpenedSource<v1::FileChunk> ActivationService::OpenAttentionWeights(
    const Caller&, const v1::ReadAttentionWeightsRequest& request, Waker) {
  LORSA_ASSIGN_OR_RETURN(const v1::ActivationSet registered,
                         Find(request.name(), request.manifest_sha256()));
  LORSA_ASSIGN_OR_RETURN(const auto set, OpenSet(registered));
  const auto& weights = set->manifest().attention_weights;
  if (!weights.has_value()) {
    return WithReason(
        absl::NotFoundError(absl::StrCat(request.name(),
                                         " has no attention.safetensors: choose an initialisation "
                                         "that does not use the layer's weights")),
        "NO_ATTENTION_WEIGHTS");
  }
  const auto note = [this, registered](absl::Status status) {
    return NoteDamage(registered, DamageIfChanged(std::move(status)));
  };
  auto file = FileChunkSource::Open(env_.fs, {.path = JoinPath(set->folder(), weights->file),
                                              .size = weights->bytes,
                                              .sha256 = weights->sha256});
  if (!file.ok()) return note(std::move(file).status());
  return std::make_unique<WatchedSource<v1::FileChunk>>(nullptr, *std::move(file), note);
}

absl::StatusOr<std::shared_ptr<const store::ActivationSet>> ActivationService::OpenSet(
    const v1::ActivationSet& registered) {
  LORSA_RETURN_IF_ERROR(RefuseIfQuarantined(registered));
  auto set = open_sets_.Get(registered);
  LORSA_RETURN_IF_ERROR(NoteDamage(registered, set.status()));
  return set;
}

absl::Status ActivationService::Quarantine(const Caller&,
                                           const v1::QuarantineActivationSetRequest& request,
                                           v1::ActivationSet& response) {
  if (request.reason().empty() || request.reason().size() > kMaxProblemBytes) {
    return InvalidField(
        "reason", absl::StrCat("must say what is wrong, in 1 to ", kMaxProblemBytes, " bytes"));
  }
  LORSA_ASSIGN_OR_RETURN(const v1::ActivationSet set, Find(request.name()));
  LORSA_ASSIGN_OR_RETURN(response, env_.quarantine.Impose(set, {request.reason()}));
  return absl::OkStatus();
}

absl::Status ActivationService::RefuseIfQuarantined(const v1::ActivationSet& set) {
  const absl::Status status = CheckNotQuarantined(set);
  if (!status.ok()) env_.quarantine.PauseJobs(set);
  return status;
}

absl::Status ActivationService::NoteDamage(const v1::ActivationSet& set, absl::Status status) {
  if (absl::IsDataLoss(status)) {
    const absl::Status imposed =
        env_.quarantine.Impose(set, {std::string(status.message())}).status();
    if (!imposed.ok()) {
      spdlog::warn("event=quarantine_failed set={} error=\"{}\"", set.name(), imposed.ToString());
    }
  }
  return status;
}

// First the set is forgotten, then its files are removed: what a crash leaves of them is an upload
// that nobody registered, which may be deleted by the same name.
absl::Status ActivationService::Delete(const Caller&, const v1::DeleteActivationSetRequest& request,
                                       google::protobuf::Empty&) {
  LORSA_ASSIGN_OR_RETURN(const std::string id, SetId(request.name()));
  LORSA_ASSIGN_OR_RETURN(const auto claim, folder_claims_.TakeAlone(env_.uploads.Folder(id)));
  const absl::StatusOr<v1::ActivationSet> set = env_.catalog.GetActivationSet(id);
  if (set.ok() && !set->uploaded()) return Forget(id);
  if (!set.ok() && !absl::IsNotFound(set.status())) return set.status();
  LORSA_RETURN_IF_ERROR(CheckFilesAreNotShared(id));
  if (set.ok()) {
    LORSA_RETURN_IF_ERROR(Forget(id));
  } else {
    LORSA_ASSIGN_OR_RETURN(const v1::Upload upload, env_.uploads.Describe(id));
    if (upload.files().empty()) return set.status();
  }
  return env_.uploads.Remove(id);
}

absl::Status ActivationService::Forget(const std::string& id) {
  const absl::Status deleted = env_.catalog.DeleteActivationSet(id);
  if (!absl::IsFailedPrecondition(deleted)) return deleted;
  return WithReason(deleted, "SET_IN_USE", {{"activation_set", id}});
}

absl::Status ActivationService::CheckFilesAreNotShared(const std::string& id) {
  LORSA_ASSIGN_OR_RETURN(const std::vector<v1::ActivationSet> sets,
                         SetsIn(env_.catalog, env_.uploads.Folder(id)));
  for (const v1::ActivationSet& set : sets) {
    if (set.name() == absl::StrCat("activationSets/", id)) continue;
    return WithReason(absl::FailedPreconditionError(absl::StrCat("the files uploaded as ", id,
                                                                 " are also those of ", set.name(),
                                                                 "; delete that set first")),
                      "SET_IN_USE", {{"activation_set", id}});
  }
  return absl::OkStatus();
}

OpenedSink<v1::UploadShardRequest, v1::UploadedFile> ActivationService::OpenUpload(const Caller&) {
  return std::make_unique<UploadSink<v1::UploadShardRequest>>(
      [this](const v1::UploadShardRequest& first) { return Receive(first.start()); });
}

absl::StatusOr<std::unique_ptr<FileReceiver>> ActivationService::Receive(
    const v1::UploadStart& start) {
  LORSA_RETURN_IF_ERROR(CheckUploadStart(start));
  const std::string& id = start.activation_set_id();
  const std::string folder = env_.uploads.Folder(id);
  // Before the look at the catalog: no registration of the folder comes in between.
  LORSA_ASSIGN_OR_RETURN(auto claim, folder_claims_.Share(folder));
  LORSA_ASSIGN_OR_RETURN(const std::vector<v1::ActivationSet> sets, SetsIn(env_.catalog, folder));
  const absl::Status registered = env_.catalog.GetActivationSet(id).status();
  if (!registered.ok() && !absl::IsNotFound(registered)) return registered;
  if (!sets.empty() || registered.ok()) {
    return WithReason(absl::AlreadyExistsError(absl::StrCat(
                          "activation set '", id, "' is registered, or its files are those of a ",
                          "registered set: choose another id")),
                      "ACTIVATION_SET_EXISTS", {{"activation_set", id}});
  }
  return env_.uploads.Receive(start, std::move(claim));
}

absl::Status ActivationService::GetUpload(const Caller&, const v1::GetUploadRequest& request,
                                          v1::Upload& response) {
  const std::string& id = request.activation_set_id();
  LORSA_RETURN_IF_ERROR(ForField(ValidateId("activation set id", id), "activation_set_id"));
  LORSA_ASSIGN_OR_RETURN(response, env_.uploads.Describe(id));
  return absl::OkStatus();
}

absl::Status ActivationService::Get(const Caller&, const v1::GetActivationSetRequest& request,
                                    v1::ActivationSet& response) {
  LORSA_ASSIGN_OR_RETURN(response, Find(request.name()));
  return absl::OkStatus();
}

absl::Status ActivationService::List(const Caller&, const v1::ListActivationSetsRequest& request,
                                     v1::ListActivationSetsResponse& response) {
  LORSA_ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size()));
  // The token is the id that the page before ended with.
  if (!request.page_token().empty()) {
    LORSA_RETURN_IF_ERROR(ForField(ValidateId("page token", request.page_token()), "page_token"));
  }
  LORSA_ASSIGN_OR_RETURN(std::vector<v1::ActivationSet> sets,
                         env_.catalog.ListActivationSets(request.page_token(), page_size + 1));
  if (const size_t fit = ItemsInPage(sets, page_size); fit < sets.size()) {
    sets.resize(fit);
    LORSA_ASSIGN_OR_RETURN(*response.mutable_next_page_token(), SetId(sets.back().name()));
  }
  for (v1::ActivationSet& set : sets) *response.add_activation_sets() = std::move(set);
  return absl::OkStatus();
}

absl::StatusOr<v1::ActivationSet> ActivationService::Find(const std::string& name) {
  LORSA_ASSIGN_OR_RETURN(const std::string id, SetId(name));
  return env_.catalog.GetActivationSet(id);
}

absl::StatusOr<v1::ActivationSet> ActivationService::Find(const std::string& name,
                                                          const std::string& manifest_sha256) {
  LORSA_ASSIGN_OR_RETURN(v1::ActivationSet set, Find(name));
  if (manifest_sha256.empty() || manifest_sha256 == set.manifest_sha256()) return set;
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          name, " has other contents than are meant: its manifest has the sha256 ",
          set.manifest_sha256(), "; register the contents that are meant under another id")),
      "SET_CHANGED", {{"activation_set", name}});
}

}  // namespace lorsa::server
