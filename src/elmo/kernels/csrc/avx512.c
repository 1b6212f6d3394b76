#define ELMO_SUFFIX avx512
#define ELMO_AVX512
#include "kernels.inc"
