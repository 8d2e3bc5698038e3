#include "server/rpc/executor.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/exception_wall.h"

namespace lorsa::server {
namespace {

// By then the calls that wait have mostly been answered.
constexpr absl::Duration kRetryDelay = absl::Seconds(1);

// The task and all that it holds are gone when this returns.
void RunTask(std::function<void()> task) {
  const absl::Status status = CatchExceptions([&task] {
    task();
    return absl::OkStatus();
  });
  if (!status.ok()) spdlog::error("event=task_failed error=\"{}\"", status.ToString());
}

}  // namespace

Executor::Executor(int threads, const ExecutorLimits& limits) : limits_(limits) {
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
  } catch (...) {
    Join();  // Those that began: the destructor does not run.
    throw;
  }
}

Executor::~Executor() { Join(); }

void Executor::Join() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void Executor::Schedule(std::function<void()> task, const std::string& caller) {
  absl::MutexLock lock(&mutex_);
  steps_.Push(caller, ++last_number_, {std::move(task), 0});
}

absl::StatusOr<Executor::Ticket> Executor::Admit(std::function<void()> task,
                                                 const std::string& caller, size_t request_bytes) {
  absl::MutexLock lock(&mutex_);
  const bool too_large = calls_.bytes() + request_bytes > limits_.request_bytes;
  if (calls_.size() >= limits_.calls || (too_large && !calls_.empty())) {
    return WithRetryDelay(
        WithReason(absl::UnavailableError(absl::StrCat("the server is busy: ", calls_.size(),
                                                       " calls wait for it; try again in ",
                                                       absl::FormatDuration(kRetryDelay))),
                   "SERVER_BUSY"),
        kRetryDelay);
  }
  calls_.Push(caller, ++last_number_, {std::move(task), request_bytes});
  return Ticket{caller, last_number_};
}

bool Executor::Withdraw(const Ticket& ticket) {
  std::function<void()> withdrawn;  // Released without the lock.
  absl::MutexLock lock(&mutex_);
  withdrawn = calls_.Remove(ticket.caller, ticket.number);
  return withdrawn != nullptr;
}

size_t Executor::queued() const {
  absl::MutexLock lock(&mutex_);
  return calls_.size() + steps_.size();
}

bool Executor::HasWork() const { return !calls_.empty() || !steps_.empty(); }

// A running task may still schedule another, so a thread leaves only when none runs.
bool Executor::HasWorkOrIsDone() const { return HasWork() || (stopping_ && running_ == 0); }

std::function<void()> Executor::TakeTask() {
  const bool is_step = calls_.empty() || (steps_turn_ && !steps_.empty());
  steps_turn_ = !is_step;
  return is_step ? steps_.Pop() : calls_.Pop();
}

void Executor::Run() {
  while (true) {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &Executor::HasWorkOrIsDone));
      if (!HasWork()) return;
      task = TakeTask();
      ++running_;
    }
    RunTask(std::move(task));
    absl::MutexLock lock(&mutex_);
    --running_;
  }
}

}  // namespace lorsa::server
