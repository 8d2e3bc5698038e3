#include "lorsa/client/job_watch.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace lorsa::client {
namespace {

class JobWatch {
 public:
  JobWatch(const std::string& name, int64_t after_revision, const WatchCallbacks& callbacks)
      : name_(name), revision_(after_revision), callbacks_(callbacks) {}

  absl::Status Connect(Client& client, bool& received) {
    v1::WatchJobRequest request;
    request.set_name(name_);
    request.set_after_revision(revision_);
    const absl::Status status = client.Stream(&v1::JobService::Stub::WatchJob, request,
                                              [&](const v1::WatchJobResponse& response) {
                                                received = true;
                                                return Handle(response);
                                              });
    if (ended()) return absl::OkStatus();  // However the stream closed after the last event.
    if (!status.ok()) return status;
    received = false;  // A server that keeps closing the stream is not pressed harder.
    return ConnectionError(absl::StrCat("the server closed the watch of ", name_));
  }

  v1::JobState state() const { return state_; }

 private:
  absl::Status Handle(const v1::WatchJobResponse& response) {
    switch (response.item_case()) {
      case v1::WatchJobResponse::kJob:
        // Its state is that of the newest event, which may still be on its way to us.
        newest_revision_ = response.job().revision();
        if (newest_revision_ <= revision_) state_ = response.job().state();
        if (callbacks_.on_job) callbacks_.on_job(response.job());
        return absl::OkStatus();
      case v1::WatchJobResponse::kEvent:
        return HandleEvent(response.event());
      case v1::WatchJobResponse::kProgress:
        if (callbacks_.on_progress) callbacks_.on_progress(response.progress());
        return absl::OkStatus();
      case v1::WatchJobResponse::ITEM_NOT_SET:  // Of a newer server.
        return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  absl::Status HandleEvent(const v1::JobEvent& event) {
    if (event.revision() <= revision_) return absl::OkStatus();  // Seen before the reconnection.
    if (event.revision() > revision_ + 1) {
      return absl::DataLossError(absl::StrCat("the server left out events ", revision_ + 1, " to ",
                                              event.revision() - 1, " of ", name_,
                                              ": start the watch again"));
    }
    revision_ = event.revision();
    state_ = event.to_state();
    if (callbacks_.on_event) callbacks_.on_event(event);
    return absl::OkStatus();
  }

  // A final state in the history of a job that was retried is not the end.
  bool ended() const { return IsFinal(state_) && revision_ >= newest_revision_; }

  const std::string name_;
  int64_t revision_;             // of the newest event passed on
  int64_t newest_revision_ = 0;  // known of
  const WatchCallbacks& callbacks_;
  v1::JobState state_ = v1::JOB_STATE_UNSPECIFIED;
};

}  // namespace

bool IsFinal(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED ||
         state == v1::JOB_STATE_CANCELLED;
}

absl::StatusOr<v1::JobState> WatchJob(Client& client, const std::string& name,
                                      int64_t after_revision, const WatchCallbacks& callbacks) {
  JobWatch watch(name, after_revision, callbacks);
  LORSA_RETURN_IF_ERROR(client.KeepConnected(
      [&](bool& received) { return watch.Connect(client, received); }, callbacks.on_outage));
  return watch.state();
}

}  // namespace lorsa::client
