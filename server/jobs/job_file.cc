#include "server/jobs/job_file.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>

#include "base/status_macros.h"
#include "job_spec/textproto.h"
#include "lorsa/v1/job_file.pb.h"
#include "server/model/spec_facts.h"

namespace lorsa::server {
namespace {

constexpr uint64_t kMaxJobFileBytes = 8 << 20;  // A request has at most 4 MiB.

v1::Job FromTrainingJobFile(v1::TrainingJobFile& file) {
  v1::Job job;
  job.set_name(file.name());
  job.set_kind(kTrainingKind);
  job.mutable_spec()->mutable_training()->Swap(file.mutable_spec());
  job.mutable_resolved_spec()->mutable_training()->Swap(file.mutable_resolved_spec());
  *job.mutable_create_time() = file.create_time();
  *job.mutable_policy() = file.policy();
  job.set_forked_from(file.forked_from());
  job.set_memory_bytes(file.memory_bytes());
  return job;
}

absl::StatusOr<v1::Job> ParseJobFile(const std::string& path, const std::string& text) {
  v1::Job job;
  const absl::Status parsed = ParseTextproto(path, text, job);
  if (parsed.ok()) return job;
  v1::TrainingJobFile older;
  if (!ParseTextproto(path, text, older).ok()) return parsed;
  return FromTrainingJobFile(older);
}

}  // namespace

absl::Status WriteJobFile(const JobEnvironment& env, const JobRecord& job) {
  v1::Job file;
  file.set_name(job.job.name());
  file.set_kind(job.job.kind());
  file.set_uid(job.job.uid());
  *file.mutable_create_time() = job.job.create_time();
  *file.mutable_spec() = job.job.spec();
  *file.mutable_resolved_spec() = job.job.resolved_spec();
  *file.mutable_policy() = job.job.policy();
  file.set_forked_from(job.job.forked_from());
  file.set_memory_bytes(job.job.memory_bytes());
  std::string text;
  google::protobuf::TextFormat::PrintToString(file, &text);
  return WriteFileAtomically(env.fs, env.layout.JobFile(job.id), text);
}

absl::StatusOr<std::optional<v1::Job>> ReadJobFile(const JobEnvironment& env,
                                                   const std::string& job_id) {
  const std::string path = env.layout.JobFile(job_id);
  const absl::StatusOr<std::string> text = ReadFile(env.fs, path, kMaxJobFileBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  LORSA_RETURN_IF_ERROR(text.status());
  absl::StatusOr<v1::Job> job = ParseJobFile(path, *text);
  if (job.ok()) return *std::move(job);
  spdlog::warn("event=job_file_unreadable job={} error=\"{}\"", job_id, job.status().ToString());
  return std::nullopt;
}

NewJob NewJobOf(const std::string& job_id, const v1::Job& file) {
  return {.id = job_id,
          .uid = file.uid(),
          .spec = file.spec(),
          .resolved_spec = file.resolved_spec(),
          .policy = file.policy(),
          .memory_bytes = file.memory_bytes(),
          .forked_from = file.forked_from()};
}

absl::Time CreateTimeOf(const v1::Job& job) {
  return absl::FromUnixNanos(
      google::protobuf::util::TimeUtil::TimestampToNanoseconds(job.create_time()));
}

}  // namespace lorsa::server
