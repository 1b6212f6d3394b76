/* Which of the compiled variants this processor runs fastest. */
#include "kernels.h"

int64_t elmo_abi(void) { return ELMO_ABI; }

const char *elmo_best_variant(void) {
#if defined(ELMO_X86)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        return __builtin_cpu_supports("avx512vnni") ? "avx512vnni" : "avx512";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "avx2";
#endif
    return "portable";
}
