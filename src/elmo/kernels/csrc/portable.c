#define ELMO_SUFFIX portable
#include "kernels.inc"
