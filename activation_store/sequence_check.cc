#include "activation_store/sequence_check.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "activation_store/checksums.h"
#include "base/status_macros.h"

namespace lorsa::store {
namespace {

struct BFloat16Bits {
  using Bits = uint16_t;
  static float ToFloat(Bits bits) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

struct Float16Bits {
  using Bits = uint16_t;
  // Shifted into fp32's place the exponent is 112 too small; the product corrects it, for
  // subnormal numbers too.
  static float ToFloat(Bits bits) {
    const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fff) << 13;
    const float value = std::bit_cast<float>(magnitude) * 0x1p112f;
    const bool finite = (bits & 0x7c00) != 0x7c00;
    const float out = finite ? value : std::numeric_limits<float>::infinity();
    return (bits & 0x8000) != 0 ? -out : out;
  }
};

struct Float32Bits {
  using Bits = uint32_t;
  static float ToFloat(Bits bits) { return std::bit_cast<float>(bits); }
};

// Sum of squares in double precision. Eight partial sums in a fixed order let the compiler use
// vectors and give the same result everywhere. NaN or Inf if and only if an element is: squares of
// fp32 numbers cannot overflow a double.
template <typename Format>
double SquaredNorm(const char* bytes, int64_t n) {
  constexpr int kLanes = 8;
  double lanes[kLanes] = {};
  typename Format::Bits block[kLanes];
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    std::memcpy(block, bytes + i * sizeof(block[0]), sizeof(block));
    for (int lane = 0; lane < kLanes; ++lane) {
      const double value = Format::ToFloat(block[lane]);
      lanes[lane] += value * value;
    }
  }
  for (; i < n; ++i) {
    std::memcpy(block, bytes + i * sizeof(block[0]), sizeof(block[0]));
    const double value = Format::ToFloat(block[0]);
    lanes[i % kLanes] += value * value;
  }
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

double SquaredNorm(const char* bytes, int64_t n, ElementType type) {
  switch (type) {
    case ElementType::kBFloat16:
      return SquaredNorm<BFloat16Bits>(bytes, n);
    case ElementType::kFloat16:
      return SquaredNorm<Float16Bits>(bytes, n);
    case ElementType::kFloat32:
      return SquaredNorm<Float32Bits>(bytes, n);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

// Norms of the positions, 0 where masked.
absl::StatusOr<std::vector<double>> Norms(const std::string& data, absl::string_view dataset,
                                          const std::string& mask, const ShardShape& shape) {
  const int64_t position_bytes = shape.d_model * ElementSize(shape.element_type);
  std::vector<double> norms(static_cast<size_t>(shape.context));
  for (int64_t p = 0; p < shape.context; ++p) {
    const double squared =
        SquaredNorm(data.data() + p * position_bytes, shape.d_model, shape.element_type);
    if (!std::isfinite(squared)) {
      return absl::DataLossError(absl::StrCat("'", dataset, "' holds NaN or Inf at position ", p));
    }
    if (mask[p] != 0) norms[static_cast<size_t>(p)] = std::sqrt(squared);
  }
  return norms;
}

absl::StatusOr<int64_t> CountUnmasked(const std::string& mask) {
  int64_t unmasked = 0;
  for (size_t p = 0; p < mask.size(); ++p) {
    const uint8_t value = static_cast<uint8_t>(mask[p]);
    if (value > 1) {
      return absl::DataLossError(
          absl::StrCat("'mask' is ", value, " at position ", p, " instead of 0 or 1"));
    }
    unmasked += value;
  }
  return unmasked;
}

int32_t TokenAt(const Sequence& sequence, int64_t position) {
  int32_t token;
  std::memcpy(&token, sequence.tokens.data() + position * sizeof(token), sizeof(token));
  return token;
}

absl::Status CheckPadding(const Sequence& sequence, int64_t unmasked) {
  if (unmasked == 0) return absl::OkStatus();  // Padding throughout hides behind nothing.
  int64_t run = 0;                             // ends before a target, since there is one
  while (sequence.mask[run] == 0 && TokenAt(sequence, run) == TokenAt(sequence, 0)) ++run;
  if (run < kLeftPaddingRun) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("is padded on the left (", run,
                                          " masked positions with one token); pad on the right"));
}

}  // namespace

absl::StatusOr<SequenceFacts> ExamineSequence(const Sequence& sequence, const ShardShape& shape) {
  SequenceFacts facts;
  LORSA_ASSIGN_OR_RETURN(facts.unmasked_tokens, CountUnmasked(sequence.mask));
  LORSA_RETURN_IF_ERROR(CheckPadding(sequence, facts.unmasked_tokens));
  LORSA_ASSIGN_OR_RETURN(const std::vector<double> input_norms,
                         Norms(sequence.mhsa_input, "mhsa_input", sequence.mask, shape));
  LORSA_ASSIGN_OR_RETURN(facts.output_norms,
                         Norms(sequence.mhsa_output, "mhsa_output", sequence.mask, shape));
  facts.input_norm_sum = std::accumulate(input_norms.begin(), input_norms.end(), 0.0);
  facts.output_norm_sum =
      std::accumulate(facts.output_norms.begin(), facts.output_norms.end(), 0.0);
  facts.checksum = SequenceChecksum(sequence);
  return facts;
}

}  // namespace lorsa::store
