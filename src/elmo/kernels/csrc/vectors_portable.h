/* Any processor: the compiler's own vectors of four. On x86 they are SSE2, in WebAssembly SIMD128. */
#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif

#define ELMO_LANES 4
#define ELMO_MAX_ROWS 4
#define ELMO_FEW_ROWS 1
#define ELMO_HAS_HALF 0
#define ELMO_UNSIGNED_INPUTS 0

typedef float elmo_vec __attribute__((vector_size(16)));
typedef int32_t elmo_vint __attribute__((vector_size(16)));
typedef uint32_t elmo_vuint __attribute__((vector_size(16))); /* where sums may wrap */
typedef double elmo_vdouble __attribute__((vector_size(32)));
typedef int32_t elmo_vint8 __attribute__((vector_size(32)));

ELMO_INLINE elmo_vec v_load(const float *p) { elmo_vec v; memcpy(&v, p, sizeof v); return v; }
ELMO_INLINE void v_store(float *p, elmo_vec v) { memcpy(p, &v, sizeof v); }
ELMO_INLINE void v_store_some(float *p, int64_t num, elmo_vec v) {
    for (int64_t lane = 0; lane < num; lane++)
        p[lane] = v[lane];
}
ELMO_INLINE elmo_vec v_set(float x) { return (elmo_vec){x, x, x, x}; }
ELMO_INLINE elmo_vint vi_set(int32_t x) { return (elmo_vint){x, x, x, x}; }
ELMO_INLINE int vi_any(elmo_vint mask) {
#if defined(__SSE2__)
    return _mm_movemask_epi8((__m128i)mask) != 0;
#elif defined(__wasm_simd128__)
    return wasm_v128_any_true((v128_t)mask);
#else
    return (mask[0] | mask[1] | mask[2] | mask[3]) != 0;
#endif
}
ELMO_INLINE elmo_vec v_select(elmo_vint mask, elmo_vec yes, elmo_vec no) {
    return (elmo_vec)(((elmo_vint)yes & mask) | ((elmo_vint)no & ~mask));
}
ELMO_INLINE elmo_vec v_load_bfloat(const uint16_t *p) {
    return (elmo_vec)((elmo_vuint){p[0], p[1], p[2], p[3]} << 16);
}
ELMO_INLINE void v_store_bfloat(uint16_t *p, elmo_vec v) { /* to nearest, ties to even */
    for (int lane = 0; lane < ELMO_LANES; lane++) {
        float value = v[lane];
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        p[lane] = value != value ? 0x7fc0 : (uint16_t)((bits + ((bits >> 16) & 1) + 0x7fff) >> 16);
    }
}


#if defined(__wasm_simd128__)
/* It has no fused multiply-add, and an exact one by doubles would cost more than all the rest: the float32 results of
 * a browser differ from those of processors by rounding. */
ELMO_INLINE elmo_vec v_fma(elmo_vec a, elmo_vec b, elmo_vec c) { return a * b + c; }
#elif defined(__FP_FAST_FMAF)
ELMO_INLINE elmo_vec v_fma(elmo_vec a, elmo_vec b, elmo_vec c) {
    for (int lane = 0; lane < ELMO_LANES; lane++)
        c[lane] = __builtin_fmaf(a[lane], b[lane], c[lane]);
    return c;
}
#else
#define ELMO_UNFUSED_SUMS

/* a * b + c rounded once. The product is exact in a double; the sum is rounded to odd, which a second rounding to
 * float does not disturb. */
static __attribute__((noinline)) elmo_vec v_fma_by_lanes(elmo_vec a, elmo_vec b, elmo_vec c) {
    for (int lane = 0; lane < ELMO_LANES; lane++) {
        double product = (double)a[lane] * b[lane], other = c[lane], sum = product + other;
        double rest = sum - product, error = (product - (sum - rest)) + (other - rest);
        int64_t bits;
        memcpy(&bits, &sum, sizeof bits);
        if (sum - sum == 0.0 && error != 0.0 && !(bits & 1))
            bits += (error > 0.0) == (sum > 0.0) ? 1 : -1;
        memcpy(&sum, &bits, sizeof bits);
        c[lane] = (float)sum;
    }
    return c;
}

/* Rounding to double and then to float differs from rounding once only where the double lies halfway between two
 * floats; subnormal floats, which lie further apart, are left to the careful way, too. */
ELMO_INLINE elmo_vec v_fma(elmo_vec a, elmo_vec b, elmo_vec c) {
    elmo_vdouble sum = __builtin_convertvector(a, elmo_vdouble) * __builtin_convertvector(b, elmo_vdouble) +
                       __builtin_convertvector(c, elmo_vdouble);
    elmo_vec rounded = __builtin_convertvector(sum, elmo_vec);
    elmo_vint low = __builtin_shufflevector((elmo_vint8)sum, (elmo_vint8)sum, 0, 2, 4, 6) & 0x1fffffff;
    elmo_vint exponent = (elmo_vint)rounded & 0x7f800000;
    if (__builtin_expect(vi_any((low == 0x10000000) | (exponent == 0)), 0))
        return v_fma_by_lanes(a, b, c);
    return rounded;
}
#endif
ELMO_INLINE elmo_vec v_fnma(elmo_vec a, elmo_vec b, elmo_vec c) { return v_fma(-a, b, c); }
#if defined(__wasm_simd128__) /* pmin(b, a) = a < b ? a : b */
ELMO_INLINE elmo_vec v_min(elmo_vec a, elmo_vec b) { return (elmo_vec)wasm_f32x4_pmin((v128_t)b, (v128_t)a); }
ELMO_INLINE elmo_vec v_max(elmo_vec a, elmo_vec b) { return (elmo_vec)wasm_f32x4_pmax((v128_t)b, (v128_t)a); }
#else
ELMO_INLINE elmo_vec v_min(elmo_vec a, elmo_vec b) { return v_select(a < b, a, b); }
ELMO_INLINE elmo_vec v_max(elmo_vec a, elmo_vec b) { return v_select(a > b, a, b); }
#endif

#define ELMO_MAGIC 12582912.0f /* 1.5 * 2^23: what is added to it loses its fraction */
ELMO_INLINE elmo_vec v_round(elmo_vec a) { return (a + ELMO_MAGIC) - ELMO_MAGIC; } /* |a| < 2^22 */
ELMO_INLINE elmo_vint v_whole(elmo_vec a) { /* as int32, for |a| < 2^22; any number for a NaN */
    return (elmo_vint)((elmo_vuint)(a + ELMO_MAGIC) - (elmo_vuint)v_set(ELMO_MAGIC));
}
ELMO_INLINE elmo_vec v_times_power_of_two(elmo_vec x, elmo_vec n) { /* -126 <= n <= 127 */
    return x * (elmo_vec)(((elmo_vuint)(n + ELMO_MAGIC) << 23) + (127u << 23)); /* the sum ends in the bits of n */
}
ELMO_INLINE elmo_vec v_where_greater(elmo_vec a, elmo_vec b, elmo_vec yes, elmo_vec no) {
    return v_select(a > b, yes, no);
}
ELMO_INLINE elmo_vec v_zero_where_outside(elmo_vec v, elmo_vec value, elmo_vec bound) {
    return (elmo_vec)((elmo_vint)v & ~((value >= bound) | (value <= -bound)));
}
ELMO_INLINE int v_any_nan(elmo_vec v) {
    return vi_any(v != v);
}

ELMO_INLINE elmo_vint vi_load(const void *p) { elmo_vint v; memcpy(&v, p, sizeof v); return v; }
ELMO_INLINE void vi_store(int32_t *p, elmo_vint v) { memcpy(p, &v, sizeof v); }
ELMO_INLINE elmo_vint vi_sub(elmo_vint a, elmo_vint b) { return a - b; }
ELMO_INLINE elmo_vec vi_to_float(elmo_vint v) { return __builtin_convertvector(v, elmo_vec); }
ELMO_INLINE elmo_vint vi_max_magnitude(elmo_vint peak, elmo_vec v) {
    elmo_vint magnitude = (elmo_vint)v & 0x7fffffff, mask = magnitude > peak;
    return (magnitude & mask) | (peak & ~mask);
}
ELMO_INLINE void v_store_bytes(uint8_t *p, elmo_vec v) { /* the lowest 8 bits of whole numbers */
    elmo_vint whole = v_whole(v);
    for (int lane = 0; lane < ELMO_LANES; lane++)
        p[lane] = (uint8_t)whole[lane];
}

#if defined(__wasm_simd128__)
ELMO_INLINE void v_store_inputs(int16_t *p, elmo_vec v) {
    elmo_vint whole = v_whole(v);
    wasm_v128_store64_lane(p, wasm_i16x8_narrow_i32x4((v128_t)whole, (v128_t)whole), 0);
}
#endif

/* Bytes of even and of odd places, widened to 16 bits, whose products are summed in pairs. */
#if defined(__SSE2__)
ELMO_INLINE elmo_vint vi_dot(elmo_vint sum, elmo_vint inputs, elmo_vint weights) {
    __m128i a = (__m128i)inputs, b = (__m128i)weights;
    __m128i even = _mm_madd_epi16(_mm_srai_epi16(_mm_slli_epi16(a, 8), 8), _mm_srai_epi16(_mm_slli_epi16(b, 8), 8));
    __m128i odd = _mm_madd_epi16(_mm_srai_epi16(a, 8), _mm_srai_epi16(b, 8));
    return sum + (elmo_vint)_mm_add_epi32(even, odd);
}
#elif defined(__wasm_simd128__)
/* The 16 weights of four outputs stand as inputs 0 and 1 of each output, then inputs 2 and 3 of each: elmo.js lays them
 * out so, and no sum has to be shuffled. Inputs are packed in 16 bits, as they are multiplied. */
#define ELMO_WIDE_INPUTS
typedef int16_t elmo_input;
typedef struct {
    v128_t first, last; /* two inputs each, four times */
} elmo_inputs;
typedef elmo_inputs elmo_weight; /* two inputs each of four outputs */
/* Computed here and not later: else clang delays half of the sums, and the registers do not suffice. */
#define ELMO_IN_REGISTER(value) __asm__ volatile("" : "+r"(value))
ELMO_INLINE elmo_inputs vi_load_inputs(const elmo_input *p) {
    return (elmo_inputs){wasm_v128_load32_splat(p), wasm_v128_load32_splat(p + 2)};
}
ELMO_INLINE elmo_weight vi_load_weights(const int8_t *p) {
    return (elmo_weight){wasm_i16x8_load8x8(p), wasm_i16x8_load8x8(p + 8)};
}
ELMO_INLINE elmo_vint vi_dot(elmo_vint sum, elmo_inputs inputs, elmo_weight weights) {
    v128_t low = wasm_i32x4_dot_i16x8(inputs.first, weights.first);
    v128_t high = wasm_i32x4_dot_i16x8(inputs.last, weights.last);
    return sum + (elmo_vint)wasm_i32x4_add(low, high);
}
#else
ELMO_INLINE elmo_vint vi_dot(elmo_vint sum, elmo_vint inputs, elmo_vint weights) {
    int8_t from[16], with[16];
    memcpy(from, &inputs, 16);
    memcpy(with, &weights, 16);
    for (int lane = 0; lane < 4; lane++)
        for (int byte = 0; byte < 4; byte++)
            sum[lane] += (int32_t)from[4 * lane + byte] * with[4 * lane + byte];
    return sum;
}
#endif
