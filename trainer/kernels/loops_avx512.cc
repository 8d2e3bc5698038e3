#define LORSA_LOOPS_SUFFIX Avx512
#include "trainer/kernels/loops_impl.h"
