#include "trainer/kernels/optimizer.h"

#include <algorithm>
#include <vector>

#include "trainer/kernels/tasks.h"

namespace lorsa::kernels {
namespace {

constexpr int64_t kPiece = 1 << 16;

int64_t Pieces(int64_t n) { return (n + kPiece - 1) / kPiece; }

}  // namespace

AdamSums AdamUpdate(const AdamConstants& constants, const AdamArrays& arrays) {
  const auto update = PlainLoopsFor(BestLevel()).adam;
  std::vector<AdamSums> sums(Pieces(arrays.n));
  RunTasks(sums.size(), [&](int64_t piece, int) {
    const int64_t first = piece * kPiece;
    sums[piece] = update(constants, std::min(kPiece, arrays.n - first), arrays.gradient + first,
                         arrays.mean + first, arrays.variance + first, arrays.parameter + first);
  });
  AdamSums total{};
  for (const AdamSums& sum : sums) {
    total.update_squares += sum.update_squares;
    total.parameter_squares += sum.parameter_squares;
  }
  return total;
}

double SumOfSquares(const float* x, int64_t n) {
  const auto sum_of_squares = PlainLoopsFor(BestLevel()).sum_of_squares;
  std::vector<double> sums(Pieces(n));
  RunTasks(sums.size(), [&](int64_t piece, int) {
    sums[piece] = sum_of_squares(x + piece * kPiece, std::min(kPiece, n - piece * kPiece));
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace lorsa::kernels
