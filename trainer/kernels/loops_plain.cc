#define LORSA_LOOPS_SUFFIX Plain
#include "trainer/kernels/loops_impl.h"
