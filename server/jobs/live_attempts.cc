#include "server/jobs/live_attempts.h"

#include <utility>

namespace lorsa::server {

LiveAttempts::Entry* LiveAttempts::Find(const AttemptKey& attempt) {
  const auto found = entries_.find(attempt.job_id);
  if (found == entries_.end() || found->second.attempt != attempt.attempt) return nullptr;
  return &found->second;
}

LastSigns LiveAttempts::Observe(const AttemptKey& attempt, absl::Duration now) {
  absl::MutexLock lock(&mu_);
  Entry& entry = entries_[attempt.job_id];
  if (entry.attempt < attempt.attempt) {
    entry = Entry();
    entry.attempt = attempt.attempt;
    entry.signs = {.heard = now, .progressed = now};
  }
  // An older attempt's caller must not make a newer one look alive.
  if (entry.attempt == attempt.attempt) {
    if (entry.being_handled > 0) entry.signs.heard = now;
    if (!entry.waiting_for.empty()) entry.signs.progressed = now;
  }
  LastSigns signs = entry.signs;
  if (entry.being_handled > 0) signs.progressed += now - entry.handled_since;
  return signs;
}

void LiveAttempts::Excuse(const AttemptKey& attempt, absl::Duration now) {
  absl::MutexLock lock(&mu_);
  if (Entry* entry = Find(attempt)) entry->signs.heard = now;
}

void LiveAttempts::Transferred(const AttemptKey& attempt, absl::Duration now) {
  absl::MutexLock lock(&mu_);
  if (Entry* entry = Find(attempt)) entry->signs = {.heard = now, .progressed = now};
}

void LiveAttempts::BeginHandling(const AttemptKey& attempt, absl::Duration now) {
  absl::MutexLock lock(&mu_);
  Entry* entry = Find(attempt);
  if (entry == nullptr) return;
  entry->signs.heard = now;
  if (entry->being_handled++ == 0) entry->handled_since = now;
}

void LiveAttempts::EndHandling(const AttemptKey& attempt, absl::Duration now) {
  absl::MutexLock lock(&mu_);
  Entry* entry = Find(attempt);
  // The entry may have begun meanwhile.
  if (entry == nullptr || entry->being_handled == 0) return;
  entry->signs.heard = now;
  if (--entry->being_handled == 0) entry->signs.progressed += now - entry->handled_since;
}

absl::Duration LiveAttempts::KillTime(const AttemptKey& attempt, absl::Duration if_first) {
  absl::MutexLock lock(&mu_);
  Entry* entry = Find(attempt);
  if (entry == nullptr) return if_first;
  if (!entry->kill_time.has_value()) entry->kill_time = if_first;
  return *entry->kill_time;
}

bool LiveAttempts::Attach(const AttemptKey& attempt, std::shared_ptr<WorkerConnection> connection) {
  std::shared_ptr<WorkerConnection> replaced;
  {
    absl::MutexLock lock(&mu_);
    Entry* entry = Find(attempt);
    if (entry == nullptr) return false;
    replaced = std::exchange(entry->connection, std::move(connection));
    entry->last_command = v1::COMMAND_UNSPECIFIED;
  }
  if (replaced != nullptr) replaced->End(absl::AbortedError("a newer session replaced this one"));
  return true;
}

void LiveAttempts::Detach(const AttemptKey& attempt, const WorkerConnection* connection) {
  absl::MutexLock lock(&mu_);
  Entry* entry = Find(attempt);
  if (entry != nullptr && entry->connection.get() == connection) entry->connection = nullptr;
}

void LiveAttempts::Command(const AttemptKey& attempt, v1::Command command) {
  std::shared_ptr<WorkerConnection> connection;
  {
    absl::MutexLock lock(&mu_);
    Entry* entry = Find(attempt);
    if (entry == nullptr || entry->connection == nullptr || entry->last_command == command) return;
    entry->last_command = command;
    connection = entry->connection;
  }
  v1::ServerMessage message;
  message.set_command(command);
  connection->Send(std::move(message));
}

bool LiveAttempts::SetProgress(const AttemptKey& attempt, const v1::JobProgress& progress,
                               absl::Duration now) {
  absl::MutexLock lock(&mu_);
  Entry* entry = Find(attempt);
  if (entry == nullptr) return false;
  if (!entry->progress || entry->progress->step() != progress.step() ||
      entry->progress->phase() != progress.phase()) {
    entry->signs.progressed = now;
  }
  entry->progress = progress;
  return true;
}

void LiveAttempts::SetWaitingFor(const AttemptKey& attempt, absl::string_view waiting_for) {
  absl::MutexLock lock(&mu_);
  if (Entry* entry = Find(attempt)) entry->waiting_for = std::string(waiting_for);
}

void LiveAttempts::WaitingForRecorded(const AttemptKey& attempt, absl::string_view waiting_for) {
  absl::MutexLock lock(&mu_);
  if (Entry* entry = Find(attempt)) entry->recorded_waiting_for = std::string(waiting_for);
}

bool LiveAttempts::HistorySays(const AttemptKey& attempt, absl::string_view waiting_for) {
  absl::MutexLock lock(&mu_);
  const Entry* entry = Find(attempt);
  return entry == nullptr || entry->recorded_waiting_for == waiting_for;
}

std::optional<v1::JobProgress> LiveAttempts::Progress(absl::string_view job_id) const {
  absl::MutexLock lock(&mu_);
  const auto found = entries_.find(job_id);
  return found == entries_.end() ? std::nullopt : found->second.progress;
}

std::string LiveAttempts::WaitingFor(absl::string_view job_id) const {
  absl::MutexLock lock(&mu_);
  const auto found = entries_.find(job_id);
  return found == entries_.end() ? "" : found->second.waiting_for;
}

void LiveAttempts::End(const AttemptKey& attempt, const absl::Status& status) {
  std::shared_ptr<WorkerConnection> connection;
  {
    absl::MutexLock lock(&mu_);
    Entry* entry = Find(attempt);
    if (entry == nullptr) return;
    connection = std::move(entry->connection);
    entries_.erase(attempt.job_id);
  }
  if (connection != nullptr) connection->End(status);
}

void LiveAttempts::EndAll(const absl::Status& status) {
  std::map<std::string, Entry, std::less<>> entries;
  {
    absl::MutexLock lock(&mu_);
    entries.swap(entries_);
  }
  for (const auto& [job_id, entry] : entries) {
    if (entry.connection != nullptr) entry.connection->End(status);
  }
}

}  // namespace lorsa::server
