#define ELMO_SUFFIX avx2
#define ELMO_AVX2
#include "kernels.inc"
