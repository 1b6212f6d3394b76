#define SUFFIX portable
#include "kernels.inc"
