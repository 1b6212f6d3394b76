#define ELMO_SUFFIX avx512vnni
#define ELMO_AVX512
#define ELMO_VNNI
#include "kernels.inc"
