// Each hot loop at each instruction level that this machine has, against plain arithmetic in double
// precision; lengths leave every remainder. And the products and layouts built on them.
#include "trainer/kernels/loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "trainer/kernels/block_gemm.h"
#include "trainer/kernels/optimizer.h"
#include "trainer/kernels/panels.h"

namespace lorsa::kernels {
namespace {

constexpr int64_t kLengths[] = {1, 7, 15, 16, 17, 33, 64, 100, 257};

std::vector<float> Normal(int64_t n, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

float ToFloat(float x) { return x; }
float ToFloat(Bf16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

std::vector<Level> SupportedLevels() {
  std::vector<Level> levels;
  for (const Level level : {Level::kPlain, Level::kAvx2, Level::kAvx512}) {
    if (IsSupported(level)) levels.push_back(level);
  }
  return levels;
}

class LoopsTest : public testing::TestWithParam<Level> {
 protected:
  const PlainLoops& plain() const { return PlainLoopsFor(GetParam()); }
  template <typename T>
  const Loops<T>& typed() const {
    return LoopsFor<T>(GetParam());
  }
  template <typename T>
  std::vector<T> Convert(const std::vector<float>& in) const {
    std::vector<T> out(in.size());
    typed<T>().convert(in.data(), in.size(), out.data());
    return out;
  }
};

TEST_P(LoopsTest, Bf16IsRoundedToNearestEvenAndNanStaysNan) {
  const std::vector<float> in = {1.0f,
                                 1.00390625f,
                                 1.01171875f,
                                 -1.00390625f,
                                 3.4e38f,
                                 1e-40f,
                                 std::bit_cast<float>(0x7fffffffu),
                                 std::bit_cast<float>(0xffffffffu),
                                 std::numeric_limits<float>::infinity()};
  const std::vector<Bf16> out = Convert<Bf16>(in);
  EXPECT_EQ(ToFloat(out[0]), 1.0f);
  EXPECT_EQ(ToFloat(out[1]), 1.0f);       // halfway, to the even neighbour below
  EXPECT_EQ(ToFloat(out[2]), 1.015625f);  // halfway, to the even neighbour above
  EXPECT_EQ(ToFloat(out[3]), -1.0f);
  EXPECT_TRUE(std::isinf(ToFloat(out[4])));
  EXPECT_NEAR(ToFloat(out[5]), 1e-40, 4.6e-41);  // half the distance of subnormal bf16
  EXPECT_TRUE(std::isnan(ToFloat(out[6])));
  EXPECT_TRUE(std::isnan(ToFloat(out[7])));
  EXPECT_TRUE(std::isinf(ToFloat(out[8])));
}

TEST_P(LoopsTest, SoftmaxAndItsRecomputationAreExact) {
  for (const int64_t n : kLengths) {
    std::vector<float> scores = Normal(n);
    scores[n / 2] = -200;  // below what the exponential reaches
    std::vector<float> p(n + 32, 9.0f), again(n);
    const float scale = 2.5f;
    const SoftmaxSums sums = typed<float>().softmax_row(scores.data(), n, scale, p.data(), n + 32);
    plain().pattern_row(scores.data(), n, scale, sums.log_sum_exp, again.data());
    double total = 0;
    const double maximum = *std::max_element(scores.begin(), scores.end()) * scale;
    for (const float s : scores) total += std::exp(s * double{scale} - maximum);
    for (int64_t i = 0; i < n; ++i) {
      const double expected = std::exp(scores[i] * double{scale} - maximum) / total;
      EXPECT_NEAR(p[i] * sums.inverse_sum, expected, 1e-6 * expected + 1e-30) << n;
      EXPECT_NEAR(again[i], expected, 3e-6 * expected + 1e-30) << n;
    }
    EXPECT_EQ(std::count(p.begin() + n, p.end(), 0.0f), 32);
    EXPECT_NEAR(sums.log_sum_exp, maximum + std::log(total), 1e-5);
  }
}

TEST_P(LoopsTest, SoftmaxOfNanIsNan) {
  std::vector<float> scores = Normal(40), p(64);
  scores[21] = std::numeric_limits<float>::quiet_NaN();
  const SoftmaxSums sums = typed<float>().softmax_row(scores.data(), 40, 1, p.data(), 64);
  EXPECT_TRUE(std::isnan(sums.log_sum_exp));
}

TEST_P(LoopsTest, SoftmaxGradient) {
  for (const int64_t n : kLengths) {
    const std::vector<float> a = Normal(n), da = Normal(n, 2);
    std::vector<float> ds(n + 32, 9.0f);
    typed<float>().softmax_gradient_row(a.data(), da.data(), n, 0.5f, ds.data(), n + 32);
    double dot = 0;
    for (int64_t i = 0; i < n; ++i) dot += double{a[i]} * da[i];
    for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(ds[i], a[i] * (da[i] - dot) * 0.5, 1e-4) << n;
    EXPECT_EQ(std::count(ds.begin() + n, ds.end(), 0.0f), 32);
  }
}

template <typename T>
void CheckSparse(const Loops<T>& loops) {
  for (const int64_t n : kLengths) {
    const std::vector<float> base_floats = Normal(10 * n), a = Normal(n, 3);
    std::vector<T> base(10 * n);
    loops.convert(base_floats.data(), 10 * n, base.data());
    for (const int64_t count : {0, 1, 3, 4, 7}) {
      const int32_t rows[] = {9, 0, 3, 3, 7, 1, 2};
      const std::vector<float> weights = Normal(7, 4);
      std::vector<float> y = a, dots(7, -1.0f);
      loops.gather_sum(base.data(), n, rows, weights.data(), count, n, y.data());
      loops.gather_dots(base.data(), n, rows, count, a.data(), n, 2.0f, dots.data());
      for (int64_t i = 0; i < n; ++i) {
        double expected = a[i];
        for (int64_t j = 0; j < count; ++j) {
          expected += double{weights[j]} * ToFloat(base[rows[j] * n + i]);
        }
        EXPECT_NEAR(y[i], expected, 1e-5) << n << " " << count;
      }
      for (int64_t j = 0; j < count; ++j) {
        double expected = 0;
        for (int64_t i = 0; i < n; ++i) expected += double{a[i]} * ToFloat(base[rows[j] * n + i]);
        EXPECT_NEAR(dots[j], 2 * expected, 1e-4) << n << " " << count;
      }
    }
  }
}

TEST_P(LoopsTest, SparseProducts) {
  CheckSparse(typed<float>());
  CheckSparse(typed<Bf16>());
}

TEST_P(LoopsTest, ErrorRow) {
  for (const int64_t n : kLengths) {
    const std::vector<float> y = Normal(n), target = Normal(n, 2);
    std::vector<float> error(n), gradient(n), sum(n, 1.0f);
    const double squares = typed<float>().error_row(y.data(), target.data(), n, 0.5f, error.data(),
                                                    gradient.data(), sum.data());
    double expected = 0;
    for (int64_t i = 0; i < n; ++i) {
      const float e = y[i] - target[i];
      expected += double{e} * e;
      EXPECT_EQ(error[i], e);
      EXPECT_EQ(gradient[i], e * 0.5f);
      EXPECT_NEAR(sum[i], 1 + e * 0.5, 1e-6);
    }
    EXPECT_NEAR(squares, expected, 1e-6 * expected);
  }
}

TEST_P(LoopsTest, RopeTurnsAndTurnsBack) {
  for (const int64_t dims : {2, 8, 16, 26, 64}) {
    for (const auto rotate : {plain().rotate_halves, plain().rotate_pairs}) {
      const std::vector<float> row = Normal(dims);
      std::vector<float> angles = Normal(dims, 5), cos(dims), sin(dims), turned = row;
      const bool halves = rotate == plain().rotate_halves;
      for (int64_t i = 0; i < dims; ++i) {
        const double angle = angles[halves ? i % (dims / 2) : i / 2];
        cos[i] = std::cos(angle);
        sin[i] = std::sin(angle);
      }
      rotate(turned.data(), cos.data(), sin.data(), dims, 1);
      const int64_t partner = halves ? dims / 2 : 1;
      EXPECT_NEAR(turned[0], row[0] * cos[0] - row[partner] * sin[0], 1e-6);
      EXPECT_NEAR(turned[partner], row[partner] * cos[0] + row[0] * sin[0], 1e-6);
      rotate(turned.data(), cos.data(), sin.data(), dims, -1);
      for (int64_t i = 0; i < dims; ++i) EXPECT_NEAR(turned[i], row[i], 1e-6);
    }
  }
}

TEST_P(LoopsTest, CollectsWhatIsAboveInOrder) {
  for (const int64_t n : kLengths) {
    std::vector<float> z = Normal(n);
    const std::vector<float> weights = Normal(n, 2);
    z[n - 1] = std::numeric_limits<float>::quiet_NaN();
    for (const bool absolute : {false, true}) {
      for (const float* w : {weights.data(), static_cast<const float*>(nullptr)}) {
        std::vector<int32_t> keys(n + 16), heads(n + 16), expected;
        const int64_t count = plain().collect_above(z.data(), w, absolute, n, OrderKey(0.4f),
                                                    keys.data(), heads.data());
        for (int64_t i = 0; i < n; ++i) {
          const float score = (absolute ? std::abs(z[i]) : z[i]) * (w == nullptr ? 1 : w[i]);
          if (score > 0.4f || std::isnan(score)) expected.push_back(i);
        }
        ASSERT_EQ(count, expected.size()) << n;
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), heads.begin())) << n;
        for (int64_t i = 0; i + 1 < count; ++i) EXPECT_GT(FromOrderKey(keys[i]), 0.4f);
      }
    }
  }
}

TEST_P(LoopsTest, Transposes) {
  for (const int64_t rows : {1, 16, 19, 48}) {
    for (const int64_t columns : {1, 16, 21, 32}) {
      std::vector<uint32_t> in(rows * (columns + 3)), out(columns * (rows + 5), 77);
      for (size_t i = 0; i < in.size(); ++i) in[i] = i;
      plain().transpose(in.data(), columns + 3, rows, columns, out.data(), rows + 5);
      for (int64_t c = 0; c < columns; ++c) {
        for (int64_t r = 0; r < rows; ++r) {
          ASSERT_EQ(out[c * (rows + 5) + r], in[r * (columns + 3) + c]);
        }
        EXPECT_EQ(out[c * (rows + 5) + rows], 77);
      }
    }
  }
}

// A product in the layouts of panels.h, against the plain sums; `multiply` has Multiply's
// arguments.
template <typename T, typename Product>
void CheckProduct(const LoopSet<T>& loops, Product multiply) {
  for (const int64_t m : {1, 6, 16, 37}) {
    for (const int64_t n : {1, 16, 64, 75, 128}) {
      for (const int64_t k : {32, 96}) {
        const int64_t used = k - 5, stride = RowStride<T>(k), ldc = n + 3;
        const std::vector<float> a = Normal(m * stride), b = Normal(used * n, 2);
        std::vector<T> left(m * stride), right(Panels(n) * kPanel * k);
        loops.typed.convert(a.data(), a.size(), left.data());
        PackFloats(loops, b.data(), n, used, n, k, right.data(), k * kPanel);
        std::vector<T> b_rounded(b.size());
        loops.typed.convert(b.data(), b.size(), b_rounded.data());
        std::vector<float> c(m * ldc, 7.0f);
        multiply(m, n, k, left.data(), stride, right.data(), k * kPanel, c.data(), ldc, false);
        multiply(m, n, k, left.data(), stride, right.data(), k * kPanel, c.data(), ldc, true);
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            double expected = 0;
            for (int64_t l = 0; l < used; ++l) {
              expected += double{ToFloat(left[i * stride + l])} * ToFloat(b_rounded[l * n + j]);
            }
            ASSERT_NEAR(c[i * ldc + j], 2 * expected, 1e-4) << m << " " << n << " " << k;
          }
          ASSERT_EQ(c[i * ldc + n], 7.0f);
        }
      }
    }
  }
}

TEST_P(LoopsTest, PanelProducts) {
  const auto check = [&](const auto& loops) {
    CheckProduct(loops, [&](int64_t m, int64_t n, int64_t k, const auto* a, int64_t lda,
                            const auto* b, int64_t stride, float* c, int64_t ldc, bool add) {
      for (int64_t j = 0; j < n; j += kPanel) {
        loops.typed.multiply_panel(m, std::min(kPanel, n - j), k, a, lda, b + j / kPanel * stride,
                                   c + j, ldc, add);
      }
    });
  };
  check(LoopSetFor<float>(GetParam()));
  check(LoopSetFor<Bf16>(GetParam()));
}

TEST_P(LoopsTest, PackingATransposeIsPackingTheTransposed) {
  const LoopSet<Bf16> loops = LoopSetFor<Bf16>(GetParam());
  const int64_t rows = 70, depth = 32;
  const std::vector<float> values = Normal(rows * depth);
  std::vector<float> transposed(depth * rows);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < depth; ++j) transposed[j * rows + i] = values[i * depth + j];
  }
  const std::vector<Bf16> in = Convert<Bf16>(values), flat = Convert<Bf16>(transposed);
  std::vector<Bf16> panels(2 * kPanel * depth), expected = panels, back(rows * depth);
  PackTransposed(loops, in.data(), depth, rows, depth, panels.data(), depth * kPanel);
  PackRows(loops, flat.data(), rows, depth, rows, expected.data(), depth * kPanel);
  UnpackTransposed(loops, panels.data(), depth * kPanel, depth, rows, back.data(), depth);
  for (size_t i = 0; i < panels.size(); ++i) ASSERT_EQ(panels[i].bits, expected[i].bits) << i;
  for (size_t i = 0; i < back.size(); ++i) ASSERT_EQ(back[i].bits, in[i].bits) << i;
}

TEST_P(LoopsTest, AdamMovesAsItsFormulaSays) {
  const AdamConstants constants{.one_minus_beta1 = 0.1,
                                .beta2 = 0.99,
                                .one_minus_beta2 = 0.01,
                                .epsilon = 1e-3,
                                .step_size = 0.5,
                                .inverse_sqrt_correction = 1.25,
                                .gradient_factor = 0.5};
  for (const int64_t n : kLengths) {
    const std::vector<float> g = Normal(n), m = Normal(n, 2), p = Normal(n, 4);
    std::vector<float> v = Normal(n, 3), new_m = m, new_p = p;
    for (float& x : v) x *= x;
    std::vector<float> new_v = v;
    const AdamSums sums =
        plain().adam(constants, n, g.data(), new_m.data(), new_v.data(), new_p.data());
    double updates = 0, parameters = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double gradient = 0.5 * g[i];
      const double mean = 0.9 * m[i] + 0.1 * gradient;
      const double variance = 0.99 * v[i] + 0.01 * gradient * gradient;
      const double update = 0.5 * mean / (std::sqrt(variance) * 1.25 + 1e-3);
      EXPECT_NEAR(new_m[i], mean, 1e-6);
      EXPECT_NEAR(new_v[i], variance, 1e-6);
      EXPECT_NEAR(new_p[i], p[i] - update, 1e-5 * (1 + std::abs(update)));
      updates += update * update;
      parameters += double{new_p[i]} * new_p[i];
    }
    EXPECT_NEAR(sums.update_squares, updates, 1e-5 * updates);
    EXPECT_NEAR(sums.parameter_squares, parameters, 1e-5 * parameters);
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, LoopsTest, testing::ValuesIn(SupportedLevels()),
                         [](const auto& info) { return LevelName(info.param); });

TEST(BlockGemmTest, MultipliesInBothTypes) {
  CheckProduct(LoopSetFor<float>(BestLevel()), Multiply<float>);
  CheckProduct(LoopSetFor<Bf16>(BestLevel()), Multiply<Bf16>);
  ReleaseMultiplier();
}

TEST(OptimizerTest, LongArraysAreTheSumOfTheirPieces) {
  const std::vector<float> x = Normal(200'001);
  double expected = 0;
  for (const float value : x) expected += double{value} * value;
  EXPECT_NEAR(SumOfSquares(x.data(), x.size()), expected, 1e-9 * expected);
  std::vector<float> large(100, 1e38f);
  EXPECT_TRUE(std::isfinite(SumOfSquares(large.data(), large.size())));
}

}  // namespace
}  // namespace lorsa::kernels
