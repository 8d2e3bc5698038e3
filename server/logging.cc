#include "server/logging.h"

#include <grpc/support/log.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <exception>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"

namespace lorsa::server {
namespace {

std::string FileNameOf(const char* path) { return std::filesystem::path(path).filename().string(); }

// What gRPC says of its own accord, in the form of every other line.
void LogForGrpc(gpr_log_func_args* args) {
  const auto level =
      args->severity == GPR_LOG_SEVERITY_ERROR ? spdlog::level::warn : spdlog::level::debug;
  spdlog::log(level, "event=grpc source={}:{} message=\"{}\"", FileNameOf(args->file), args->line,
              args->message);
}

// Throws spdlog::spdlog_ex if the file cannot be opened.
spdlog::sink_ptr MakeSink(const LogOptions& options) {
  if (options.file.empty()) return std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  return std::make_shared<spdlog::sinks::rotating_file_sink_mt>(
      options.file, static_cast<size_t>(options.max_file_bytes),
      static_cast<size_t>(options.old_files));
}

}  // namespace

absl::Status SetUpLogging(const LogOptions& options) {
  std::shared_ptr<spdlog::logger> logger;
  try {
    logger = std::make_shared<spdlog::logger>("lorsad", MakeSink(options));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write the log to ", options.file, ": ", error.what()));
  }
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ level=%l %v", spdlog::pattern_time_type::utc);
  logger->set_level(spdlog::level::from_str(options.level));
  logger->flush_on(spdlog::level::trace);  // A line is there when the process dies after it.
  spdlog::set_default_logger(std::move(logger));
  gpr_set_log_function(LogForGrpc);
  return absl::OkStatus();
}

}  // namespace lorsa::server
