/* AVX-512 (F, BW, VL, DQ), with or without VNNI. */
#include <immintrin.h>

#define ELMO_LANES 16
#define ELMO_MAX_ROWS 12 /* 12 rows x 2 vectors of accumulators, of 32 registers */
#define ELMO_FEW_ROWS 3  /* up to here, four panels at once keep the multipliers busy: 3 x 8 accumulators */
#define ELMO_HAS_HALF 1

typedef __m512 elmo_vec;
typedef __m512i elmo_vint;
#define ELMO_MM(operation) _mm512_##operation
#include "vectors_avx.h"

ELMO_INLINE __mmask16 v_first(int64_t num) { return (__mmask16)((1u << num) - 1); }
ELMO_INLINE elmo_vec v_load_some(const float *p, int64_t num) { return _mm512_maskz_loadu_ps(v_first(num), p); }
ELMO_INLINE void v_store_some(float *p, int64_t num, elmo_vec v) { _mm512_mask_storeu_ps(p, v_first(num), v); }
ELMO_INLINE elmo_vec v_load_half(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
ELMO_INLINE elmo_vec v_load_bfloat(const uint16_t *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
ELMO_INLINE void v_store_bfloat(uint16_t *p, elmo_vec v) { /* to nearest, ties to even */
    __m512i bits = _mm512_castps_si512(v), odd = _mm512_and_epi32(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    bits = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    bits = _mm512_mask_mov_epi32(bits, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), _mm512_set1_epi32(0x7fc00000));
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
}

ELMO_INLINE elmo_vec v_round(elmo_vec a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
ELMO_INLINE elmo_vec v_times_power_of_two(elmo_vec x, elmo_vec n) { return _mm512_scalef_ps(x, n); }
ELMO_INLINE elmo_vec v_where_greater(elmo_vec a, elmo_vec b, elmo_vec yes, elmo_vec no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), no, yes);
}
ELMO_INLINE elmo_vec v_zero_where_outside(elmo_vec v, elmo_vec value, elmo_vec bound) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(_mm512_abs_ps(value), bound, _CMP_NGE_UQ), v);
}
ELMO_INLINE int v_any_nan(elmo_vec v) { return _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q) != 0; }

ELMO_INLINE elmo_vint vi_load(const void *p) { return _mm512_loadu_si512(p); }
ELMO_INLINE void vi_store(int32_t *p, elmo_vint v) { _mm512_storeu_si512(p, v); }
ELMO_INLINE elmo_vint vi_max_magnitude(elmo_vint peak, elmo_vec v) {
    return _mm512_max_epi32(peak, _mm512_and_epi32(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff)));
}
ELMO_INLINE void v_store_bytes(uint8_t *p, elmo_vec v) { /* the lowest 8 bits of whole numbers */
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}

#if defined(ELMO_VNNI)
#define ELMO_UNSIGNED_INPUTS 1
/* In assembly, as GCC 12 copies the sums around the intrinsic. */
ELMO_INLINE elmo_vint vi_dot(elmo_vint sum, elmo_vint inputs, elmo_vint weights) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(inputs), "v"(weights));
    return sum;
}
#else
#define ELMO_UNSIGNED_INPUTS 0
/* The magnitude of an input times the weight with the input's sign: two such products fit in 16 bits. */
ELMO_INLINE elmo_vint vi_dot(elmo_vint sum, elmo_vint inputs, elmo_vint weights) {
    __m512i turned = _mm512_mask_sub_epi8(weights, _mm512_movepi8_mask(inputs), _mm512_setzero_si512(), weights);
    __m512i pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(inputs), turned);
    return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
#endif
