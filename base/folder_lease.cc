// Protocol, which client/python/lorsa/folder_lock.py speaks as well. LOCK is the lock file's path.
//   1. Of LOCK.owner-1, LOCK.owner-2, … the one with the highest number says who holds the lease:
//      "free", or "held TICK by process PID on HOST".
//   2. Whoever wants the lease reads that text. Unless it is "free", it is read again until it
//      changes (its holder lives) or has not changed for 30 s (its holder is gone).
//   3. LOCK.owner-(N+1) is created. If it exists already, somebody was quicker: 1.
//   4. The files of lower numbers are removed. The highest one stays, also when the lease is let
//   go:
//      no number is given twice.
//   5. Every 5 s the holder writes another TICK. If its file is gone or there is one with the next
//      number, the holder stood still for 30 s and lost its lease: it must write nothing more.
//   6. To let go, the holder writes "free".
#include "base/folder_lease.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/file_system.h"
#include "base/monotonic_clock.h"
#include "base/path_at.h"
#include "base/status_macros.h"

namespace lorsa {
namespace {

constexpr char kFree[] = "free\n";
constexpr size_t kMaxTextBytes = 512;
constexpr absl::Duration kLook = absl::Milliseconds(200);

std::string OwnerFile(const std::string& lock_path, int64_t number) {
  return absl::StrCat(lock_path, ".owner-", number);
}

// Those that there are, in any order.
absl::StatusOr<std::vector<int64_t>> Numbers(const std::string& lock_path) {
  const std::string prefix = std::filesystem::path(lock_path).filename().string() + ".owner-";
  std::vector<int64_t> numbers;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(DirectoryOf(lock_path), error)) {
    const std::string name = entry.path().filename().string();
    absl::string_view digits = name;
    int64_t number = 0;
    if (absl::ConsumePrefix(&digits, prefix) && absl::SimpleAtoi(digits, &number)) {
      numbers.push_back(number);
    }
  }
  if (error) return ErrnoStatus(error.value(), "list", DirectoryOf(lock_path));
  return numbers;
}

std::string HeldText(int64_t tick) {
  char host[256] = "";
  ::gethostname(host, sizeof(host) - 1);
  // Of one length, so that a text is replaced by one write.
  return absl::StrFormat("held %010d by process %d on %s\n", tick, ::getpid(), host);
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return ErrnoStatus(errno, "open", path);
  char text[kMaxTextBytes];
  const ssize_t size = ::read(file.get(), text, sizeof(text));
  if (size < 0) return ErrnoStatus(errno, "read", path);
  return std::string(text, static_cast<size_t>(size));
}

absl::Status WriteText(const std::string& path, int flags, const std::string& text) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, 0644));
  if (file.get() < 0) return ErrnoStatus(errno, "open", path);
  if (::pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      ::ftruncate(file.get(), static_cast<off_t>(text.size())) != 0 || ::fsync(file.get()) != 0) {
    return ErrnoStatus(errno, "write", path);
  }
  return absl::OkStatus();
}

// Step 2: OK once the lease may be taken. NOT_FOUND if another has just taken it.
absl::Status AwaitEndOfHolder(const std::string& lock_path, int64_t number, LeaseTimes times) {
  const std::string path = OwnerFile(lock_path, number);
  LORSA_ASSIGN_OR_RETURN(const std::string first, ReadText(path));
  if (first == kFree) return absl::OkStatus();
  const absl::Duration deadline = MonotonicNow() + times.patience;
  while (MonotonicNow() < deadline) {
    absl::SleepFor(std::min(kLook, times.beat));
    LORSA_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
    if (text == kFree) return absl::OkStatus();
    if (text == first) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(DirectoryOf(lock_path), " is in use (", absl::StripAsciiWhitespace(text),
                     "); stop that process or name another folder"));
  }
  if (times.patience > absl::ZeroDuration()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(DirectoryOf(lock_path), " may be in use (",
                                                    absl::StripAsciiWhitespace(first), ")"));
}

}  // namespace

void EndProcessWithoutLease(const std::string& lock_path) {
  std::fprintf(stderr,
               "%s was taken by another process, since this one stood still for too long; this one "
               "ends, so that they do not both write\n",
               lock_path.c_str());
  std::_Exit(EXIT_FAILURE);
}

absl::StatusOr<std::unique_ptr<FolderLease>> FolderLease::Acquire(
    const std::string& lock_path, LeaseTimes times, std::function<void(const std::string&)> lost) {
  while (true) {
    LORSA_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, Numbers(lock_path));  // 1
    const int64_t newest = numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end());
    if (newest > 0) {
      const absl::Status ended = AwaitEndOfHolder(lock_path, newest, times);  // 2
      if (absl::IsNotFound(ended)) continue;
      LORSA_RETURN_IF_ERROR(ended);
    }
    const absl::Status created =
        WriteText(OwnerFile(lock_path, newest + 1), O_CREAT | O_EXCL, HeldText(0));  // 3
    if (absl::IsAlreadyExists(created)) continue;
    LORSA_RETURN_IF_ERROR(created);
    for (const int64_t number : numbers) ::unlink(OwnerFile(lock_path, number).c_str());  // 4
    return std::unique_ptr<FolderLease>(
        new FolderLease(lock_path, newest + 1, times, std::move(lost)));
  }
}

FolderLease::FolderLease(std::string lock_path, int64_t number, LeaseTimes times,
                         std::function<void(const std::string&)> lost)
    : lock_path_(std::move(lock_path)),
      number_(number),
      times_(times),
      lost_(std::move(lost)),
      thread_([this](const std::stop_token& stop) { Beat(stop); }) {}

FolderLease::~FolderLease() {
  thread_.request_stop();
  thread_.join();
  // If it cannot be said, others wait for `patience`.
  WriteText(OwnerFile(lock_path_, number_), 0, kFree).IgnoreError();  // 6
}

void FolderLease::Beat(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  for (int64_t tick = 1;; ++tick) {
    wake.wait_for(lock, stop, absl::ToChronoMilliseconds(times_.beat), [] { return false; });
    if (stop.stop_requested()) return;
    // Another error may pass, and is noticed as a loss if it lasts.
    if (absl::IsNotFound(Renew(tick))) return lost_(lock_path_);
  }
}

absl::Status FolderLease::Renew(int64_t tick) const {  // 5
  if (::access(OwnerFile(lock_path_, number_ + 1).c_str(), F_OK) == 0) {
    return absl::NotFoundError("the lease was taken");
  }
  return WriteText(OwnerFile(lock_path_, number_), 0, HeldText(tick));
}

}  // namespace lorsa
