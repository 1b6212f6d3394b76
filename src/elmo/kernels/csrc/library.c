/* Which of the compiled variants this processor runs, and which sources they were compiled from. */
#include "kernels.h"

#include <stddef.h>
#if defined(ELMO_X86)
#include <cpuid.h>
#endif
#if defined(ELMO_ARM) && defined(__linux__)
#include <sys/auxv.h>
#endif

#if !defined(ELMO_SOURCE_HASH)
#define ELMO_SOURCE_HASH "unknown"
#endif

int64_t elmo_abi(void) { return ELMO_ABI; }

const char *elmo_source_hash(void) { return ELMO_SOURCE_HASH; }

#if defined(ELMO_X86)

static const char *const variants[] = {"avx512vnni", "avx512", "avx2", "portable", NULL};

static int has_f16c(void) { /* __builtin_cpu_supports knows it in newer compilers only */
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}

static int has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }

static int has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

static int find_best(void) {
    __builtin_cpu_init();
    if (!has_avx2())
        return 3;
    if (!has_avx512())
        return 2;
    return __builtin_cpu_supports("avx512vnni") ? 0 : 1;
}

#elif defined(ELMO_ARM)

static const char *const variants[] = {"neoni8mm", "neondot", "neon", "portable", NULL};

static int find_best(void) {
#if defined(__linux__)
    int has_dot = (getauxval(AT_HWCAP) >> 20 & 1) != 0, has_i8mm = (getauxval(AT_HWCAP2) >> 13 & 1) != 0;
#elif defined(__APPLE__)
    int has_dot = 1, has_i8mm = 0; /* every processor that runs macOS has the first, not every one the second */
#else
    int has_dot = 0, has_i8mm = 0;
#endif
    return !has_dot ? 2 : has_i8mm ? 0 : 1;
}

#else

static const char *const variants[] = {"portable", NULL};

static int find_best(void) { return 0; }

#endif

const char *elmo_variant(int64_t number) {
    for (int at = find_best(); variants[at]; at++)
        if (number-- == 0)
            return variants[at];
    return NULL;
}
