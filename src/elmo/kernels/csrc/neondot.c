#define ELMO_SUFFIX neondot
#define ELMO_NEON
#define ELMO_DOT
#include "kernels.inc"
