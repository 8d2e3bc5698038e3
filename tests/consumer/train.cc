// Trains on a server, and tells how it goes: train SERVER SPECIFICATION FOLDER
#include <cstdlib>
#include <iostream>
#include <string>

#include "lorsa/client/checkpoint_download.h"
#include "lorsa/client/client.h"
#include "lorsa/client/job_submit.h"
#include "lorsa/client/job_watch.h"
#include "lorsa/client/metric_stream.h"

namespace client = lorsa::client;
namespace v1 = lorsa::v1;

void PrintOutage(const absl::Status& why, absl::Duration pause) {
  std::cerr << why.message() << "; trying again in " << pause << std::endl;
}

// The job's name, once the server has it on its disk.
absl::StatusOr<std::string> Submit(client::Client& server, const std::string& specification) {
  v1::CreateJobRequest request;
  absl::StatusOr<v1::TrainingSpec> spec = client::ParseTrainingSpec(specification);
  if (!spec.ok()) return spec.status();
  *request.mutable_spec()->mutable_training() = *std::move(spec);
  const absl::StatusOr<v1::Job> job = client::SubmitJob(server, request);
  if (!job.ok()) return job.status();
  return job->name();
}

// Until the job has ended; OK if it succeeded.
absl::Status Watch(client::Client& server, const std::string& job) {
  client::WatchCallbacks callbacks;
  std::string why;
  callbacks.on_event = [&why](const v1::JobEvent& event) {
    std::cout << v1::JobState_Name(event.to_state()) << " " << event.reason() << std::endl;
    why = event.message();
  };
  callbacks.on_outage = PrintOutage;
  const absl::StatusOr<v1::JobState> state = client::WatchJob(server, job, 0, callbacks);
  if (!state.ok()) return state.status();
  if (*state != v1::JOB_STATE_SUCCEEDED)
    return absl::AbortedError(job + " did not succeed: " + why);
  return absl::OkStatus();
}

// All evaluations, history and then live; here of a job that has ended.
absl::Status PrintEvaluations(client::Client& server, const std::string& job) {
  v1::StreamMetricsRequest request;
  request.set_job(job);
  request.set_kind(v1::METRIC_KIND_EVALUATION);
  const auto print = [](const v1::MetricPoint& point) {
    std::cout << "step " << point.step() << " fvu " << point.values().at("fvu") << std::endl;
  };
  return client::StreamMetrics(server, request, print, PrintOutage).status();
}

absl::Status Train(client::Client& server, const std::string& specification,
                   const std::string& folder) {
  const absl::StatusOr<std::string> job = Submit(server, specification);
  if (!job.ok()) return job.status();
  std::cout << *job << std::endl;
  if (absl::Status status = Watch(server, *job); !status.ok()) return status;
  if (absl::Status status = PrintEvaluations(server, *job); !status.ok()) return status;
  return client::DownloadCheckpoint(server, *job + "/checkpoints/best", folder,
                                    {.on_progress = nullptr, .on_outage = PrintOutage})
      .status();
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: train SERVER SPECIFICATION FOLDER\n";
    return EXIT_FAILURE;
  }
  client::ClientOptions options;
  options.server = argv[1];
  const auto server = client::Client::Create(options);
  const absl::Status status = server.ok() ? Train(**server, argv[2], argv[3]) : server.status();
  if (status.ok()) return EXIT_SUCCESS;
  std::cerr << client::ErrorReason(status) << ": " << status.message() << std::endl;
  return EXIT_FAILURE;
}
