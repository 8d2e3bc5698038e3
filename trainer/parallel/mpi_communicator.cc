#include "trainer/parallel/mpi_communicator.h"

#define OMPI_SKIP_MPICXX 1  // the C API alone
#include <mpi.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace lorsa::trainer {
namespace {

constexpr int kTag = 0;
// Counts are ints in MPI; larger messages go in parts.
constexpr size_t kMaxPart = size_t{1} << 30;
// How long a rank looks for a message without a pause, and then the pause between looks: a step
// takes much longer than either, and other threads have work to do.
constexpr int kEagerLooks = 1000;
constexpr absl::Duration kPause = absl::Microseconds(50);

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator() {
    // Calls come from one thread, but there are others in the process.
    int provided = 0;
    Check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
    Check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    Check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
    Check(MPI_Comm_size(MPI_COMM_WORLD, &size_));
    if (provided < MPI_THREAD_FUNNELED) Abort("this MPI library allows no threads");
  }
  ~MpiCommunicator() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void Broadcast(absl::Span<char> bytes) override {
    for (size_t begin = 0; begin < bytes.size(); begin += kMaxPart) {
      Check(MPI_Bcast(bytes.data() + begin, PartSize(bytes.size() - begin), MPI_BYTE, /*root=*/0,
                      MPI_COMM_WORLD));
    }
  }

  void Send(int to, absl::Span<const char> bytes) override {
    for (size_t begin = 0; begin < bytes.size(); begin += kMaxPart) {
      Check(MPI_Send(bytes.data() + begin, PartSize(bytes.size() - begin), MPI_BYTE, to, kTag,
                     MPI_COMM_WORLD));
    }
  }

  void Receive(int from, absl::Span<char> bytes) override {
    for (size_t begin = 0; begin < bytes.size(); begin += kMaxPart) {
      const int size = PartSize(bytes.size() - begin);
      Await(from);
      MPI_Status status;
      Check(MPI_Recv(bytes.data() + begin, size, MPI_BYTE, from, kTag, MPI_COMM_WORLD, &status));
      int received = 0;
      Check(MPI_Get_count(&status, MPI_BYTE, &received));
      if (received == size) continue;
      Abort(
          absl::StrCat("rank ", from, " sent ", received, " bytes where ", size, " were expected"));
    }
  }

  void Abort(absl::string_view message) override {
    std::cerr << "lorsa-worker: rank " << rank_ << ": " << std::string(message) << std::endl;
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::abort();
  }

 private:
  static int PartSize(size_t left) { return static_cast<int>(std::min(left, kMaxPart)); }

  // MPI's own waiting keeps a processor busy.
  void Await(int from) {
    int there = 0;
    for (int looks = 0;; ++looks) {
      Check(MPI_Iprobe(from, kTag, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE));
      if (there != 0) return;
      if (looks >= kEagerLooks) absl::SleepFor(kPause);
    }
  }

  void Check(int code) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int size = 0;
    MPI_Error_string(code, text, &size);
    Abort(absl::StrCat("MPI failed: ", absl::string_view(text, static_cast<size_t>(size))));
  }

  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

int MpiProcessCount() {
  const char* const text = std::getenv("OMPI_COMM_WORLD_SIZE");
  int count = 0;
  return text != nullptr && absl::SimpleAtoi(text, &count) ? std::max(count, 1) : 1;
}

std::unique_ptr<Communicator> JoinMpi() {
  // If mpirun has died already, MPI_Init fails.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return std::make_unique<MpiCommunicator>();
}

}  // namespace lorsa::trainer
