/* The vectors of one instruction set under common names, v_ for float32 and vi_ for int32. The includer defines
 * ELMO_AVX512 (and ELMO_VNNI), ELMO_AVX2, ELMO_NEON (and ELMO_DOT, ELMO_I8MM) or none of them.
 *
 * The same operation gives the same bits everywhere: products are fused with sums exactly where v_fma says so (the
 * compiler is told not to fuse by itself), whole products of 8 bits are summed without loss, and
 *   v_min(a, b) = a < b ? a : b     v_max(a, b) = a > b ? a : b     so that a NaN in b is passed on.
 * Only v_fma_sum, which sums up float32 matrix products, is not fused where the processor cannot do it.
 */
#include <stdint.h>
#if defined(__wasm__) /* compiled without a C library; memcpy and memset are instructions */
#include <stddef.h>
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
void *memcpy(void *to, const void *from, size_t num);
void *memset(void *to, int value, size_t num);
#else
#include <math.h>
#include <string.h>
#endif

#define ELMO_INLINE static inline __attribute__((always_inline))
#define ELMO_INPUT_LEVELS 127 /* inputs of 8 bits are whole numbers from -127 to 127, like weights */

#if defined(ELMO_AVX512)
#include "vectors_avx512.h"
#elif defined(ELMO_AVX2)
#include "vectors_avx2.h"
#elif defined(ELMO_NEON)
#include "vectors_neon.h"
#else
#include "vectors_portable.h"
#endif

/* The compiler's operators: it is told not to fuse them. */
ELMO_INLINE elmo_vec v_add(elmo_vec a, elmo_vec b) { return a + b; }
ELMO_INLINE elmo_vec v_sub(elmo_vec a, elmo_vec b) { return a - b; }
ELMO_INLINE elmo_vec v_mul(elmo_vec a, elmo_vec b) { return a * b; }
ELMO_INLINE elmo_vec v_div(elmo_vec a, elmo_vec b) { return a / b; }
#if defined(ELMO_UNFUSED_SUMS)
ELMO_INLINE elmo_vec v_fma_sum(elmo_vec a, elmo_vec b, elmo_vec c) { return a * b + c; }
#else
ELMO_INLINE elmo_vec v_fma_sum(elmo_vec a, elmo_vec b, elmo_vec c) { return v_fma(a, b, c); }
#endif

#if ELMO_LANES == 4 /* there are no masked loads */
ELMO_INLINE elmo_vec v_load_some(const float *p, int64_t num) {
    float some[4] = {0};
    for (int64_t lane = 0; lane < num; lane++)
        some[lane] = p[lane];
    return v_load(some);
}
#endif

#define ELMO_PANEL (2 * ELMO_LANES)
#if !defined(ELMO_BYTES_TOGETHER)
#define ELMO_BYTES_TOGETHER 4 /* inputs of 8 bits of a row that stand side by side */
#endif
/* Where an instruction takes unsigned inputs, 128 is added to them, and taken off the sums again. */
#define ELMO_ZERO_POINT (ELMO_UNSIGNED_INPUTS ? ELMO_INPUT_LEVELS + 1 : 0)

#if !defined(ELMO_WIDE_INPUTS) /* of a row in 8 bits, as they are packed: bytes, four of which are multiplied at once */
typedef uint8_t elmo_input;
typedef elmo_vint elmo_inputs, elmo_weight;
#define ELMO_IN_REGISTER(value) ((void)0)
ELMO_INLINE elmo_weight vi_load_weights(const int8_t *p) { return vi_load(p); }
ELMO_INLINE void v_store_inputs(elmo_input *p, elmo_vec v) { v_store_bytes(p, v); }
ELMO_INLINE elmo_inputs vi_load_inputs(const elmo_input *p) {
    int32_t four;
    memcpy(&four, p, 4);
    return vi_set(four);
}
#endif
