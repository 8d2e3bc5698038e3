#include "trainer/parallel/testing/thread_ranks.h"

#include <algorithm>
#include <deque>
#include <map>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace lorsa::trainer {
namespace {

struct Aborted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// All messages on their way.
class Mail {
 public:
  void Put(int from, int to, std::string bytes) {
    absl::MutexLock lock(&mutex_);
    boxes_[{from, to}].push_back(std::move(bytes));
  }

  std::string Take(int from, int to) {
    absl::MutexLock lock(&mutex_);
    std::deque<std::string>& box = boxes_[{from, to}];
    const auto ready = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return !box.empty() || aborted_.has_value();
    };
    mutex_.Await(absl::Condition(&ready));
    if (box.empty()) throw Aborted(*aborted_);
    std::string bytes = std::move(box.front());
    box.pop_front();
    return bytes;
  }

  void Abort(const std::string& message) {
    absl::MutexLock lock(&mutex_);
    if (!aborted_.has_value()) aborted_ = message;
  }
  std::optional<std::string> aborted() {
    absl::MutexLock lock(&mutex_);
    return aborted_;
  }

 private:
  absl::Mutex mutex_;
  std::map<std::pair<int, int>, std::deque<std::string>> boxes_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::string> aborted_ ABSL_GUARDED_BY(mutex_);
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(Mail& mail, int rank, int size,
                     const std::function<void(int, std::string&)>& alter)
      : mail_(mail), rank_(rank), size_(size), alter_(alter) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void Broadcast(absl::Span<char> bytes) override {
    if (rank_ != 0) return Receive(0, bytes);
    for (int to = 1; to < size_; ++to) {
      std::string copy(bytes.data(), bytes.size());
      if (alter_) alter_(to, copy);
      mail_.Put(0, to, std::move(copy));
    }
  }
  void Send(int to, absl::Span<const char> bytes) override {
    mail_.Put(rank_, to, std::string(bytes.data(), bytes.size()));
  }
  void Receive(int from, absl::Span<char> bytes) override {
    const std::string message = mail_.Take(from, rank_);
    if (message.size() != bytes.size()) {
      Abort(absl::StrCat("a message of ", message.size(), " bytes came where one of ", bytes.size(),
                         " was expected"));
    }
    std::copy(message.begin(), message.end(), bytes.begin());
  }
  void Abort(absl::string_view message) override {
    mail_.Abort(std::string(message));
    throw Aborted(std::string(message));
  }

 private:
  Mail& mail_;
  const int rank_;
  const int size_;
  const std::function<void(int, std::string&)>& alter_;
};

}  // namespace

std::optional<std::string> RunThreadRanks(
    int ranks, const std::function<void(Communicator&)>& body,
    const std::function<void(int to, std::string& bytes)>& alter) {
  Mail mail;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadCommunicator communicator(mail, rank, ranks, alter);
      try {
        body(communicator);
      } catch (const Aborted&) {  // told below
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return mail.aborted();
}

}  // namespace lorsa::trainer
