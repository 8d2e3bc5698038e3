#define LORSA_LOOPS_SUFFIX Avx2
#include "trainer/kernels/loops_impl.h"
