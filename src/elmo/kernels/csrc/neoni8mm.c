#define ELMO_SUFFIX neoni8mm
#define ELMO_NEON
#define ELMO_DOT
#define ELMO_I8MM
#include "kernels.inc"
