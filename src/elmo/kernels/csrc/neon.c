#define ELMO_SUFFIX neon
#define ELMO_NEON
#include "kernels.inc"
