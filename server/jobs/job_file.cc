#include "server/jobs/job_file.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>

#include "base/status_macros.h"
#include "job_spec/textproto.h"

namespace lorsa::server {
namespace {

constexpr uint64_t kMaxJobFileBytes = 8 << 20;  // A request has at most 4 MiB.

}  // namespace

absl::Status WriteJobFile(const JobEnvironment& env, const JobRecord& job) {
  v1::Job file;
  file.set_name(job.job.name());
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
  v1::Job job;
  const absl::Status parsed = ParseTextproto(path, *text, job);
  if (parsed.ok()) return job;
  spdlog::warn("event=job_file_unreadable job={} error=\"{}\"", job_id, parsed.ToString());
  return std::nullopt;
}

NewJob NewJobOf(const std::string& job_id, const v1::Job& file) {
  return {.id = job_id,
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
