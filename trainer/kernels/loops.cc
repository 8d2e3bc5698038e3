#include "trainer/kernels/loops.h"

#include <bit>
#include <cmath>
#include <limits>

namespace lorsa::kernels {

#if defined(__x86_64__)
#define LORSA_FOR_EACH_LEVEL(table) \
  { &table##Plain, &table##Avx2, &table##Avx512 }
#else
#define LORSA_FOR_EACH_LEVEL(table) \
  { &table##Plain, &table##Plain, &table##Plain }
#endif

extern const PlainLoops kPlainLoopsPlain, kPlainLoopsAvx2, kPlainLoopsAvx512;
extern const Loops<float> kFloatLoopsPlain, kFloatLoopsAvx2, kFloatLoopsAvx512;
extern const Loops<Bf16> kBf16LoopsPlain, kBf16LoopsAvx2, kBf16LoopsAvx512;

int32_t OrderKey(float value) {
  if (std::isnan(value)) return std::numeric_limits<int32_t>::max();
  const int32_t bits = std::bit_cast<int32_t>(value);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

float FromOrderKey(int32_t key) { return std::bit_cast<float>(key ^ ((key >> 31) & 0x7fffffff)); }

bool IsSupported(Level level) {
#if defined(__x86_64__)
  switch (level) {
    case Level::kPlain:
      return true;
    case Level::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Level::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  }
#endif
  return level == Level::kPlain;
}

Level BestLevel() {
  if (IsSupported(Level::kAvx512)) return Level::kAvx512;
  return IsSupported(Level::kAvx2) ? Level::kAvx2 : Level::kPlain;
}

const char* LevelName(Level level) {
  switch (level) {
    case Level::kAvx2:
      return "avx2";
    case Level::kAvx512:
      return "avx512";
    case Level::kPlain:
      break;
  }
  return "plain";
}

const PlainLoops& PlainLoopsFor(Level level) {
  static constexpr const PlainLoops* kTables[] = LORSA_FOR_EACH_LEVEL(kPlainLoops);
  return *kTables[static_cast<int>(level)];
}

template <>
const Loops<float>& LoopsFor<float>(Level level) {
  static constexpr const Loops<float>* kTables[] = LORSA_FOR_EACH_LEVEL(kFloatLoops);
  return *kTables[static_cast<int>(level)];
}

template <>
const Loops<Bf16>& LoopsFor<Bf16>(Level level) {
  static constexpr const Loops<Bf16>* kTables[] = LORSA_FOR_EACH_LEVEL(kBf16Loops);
  return *kTables[static_cast<int>(level)];
}

}  // namespace lorsa::kernels
