/* AVX2 with FMA and F16C. */
#include <immintrin.h>

#define ELMO_LANES 8
#define ELMO_MAX_ROWS 6
#define ELMO_FEW_ROWS 1
#define ELMO_HAS_HALF 1
#define ELMO_UNSIGNED_INPUTS 0

typedef __m256 elmo_vec;
typedef __m256i elmo_vint;
#define ELMO_MM(operation) _mm256_##operation
#include "vectors_avx.h"

ELMO_INLINE __m256i v_first(int64_t num) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)num), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
ELMO_INLINE elmo_vec v_load_some(const float *p, int64_t num) { return _mm256_maskload_ps(p, v_first(num)); }
ELMO_INLINE void v_store_some(float *p, int64_t num, elmo_vec v) { _mm256_maskstore_ps(p, v_first(num), v); }
ELMO_INLINE elmo_vec v_load_half(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
ELMO_INLINE elmo_vec v_load_bfloat(const uint16_t *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
ELMO_INLINE void v_store_bfloat(uint16_t *p, elmo_vec v) { /* to nearest, ties to even */
    __m256i bits = _mm256_castps_si256(v), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    bits = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    bits = _mm256_blendv_epi8(bits, _mm256_set1_epi32(0x7fc00000),
                              _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
    bits = _mm256_srli_epi32(bits, 16);
    _mm_storeu_si128((__m128i *)p,
                     _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1)));
}

ELMO_INLINE elmo_vec v_round(elmo_vec a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
ELMO_INLINE elmo_vec v_times_power_of_two(elmo_vec x, elmo_vec n) { /* -126 <= n <= 127 */
    __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
}
ELMO_INLINE elmo_vec v_where_greater(elmo_vec a, elmo_vec b, elmo_vec yes, elmo_vec no) {
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_GT_OQ));
}
ELMO_INLINE elmo_vec v_zero_where_outside(elmo_vec v, elmo_vec value, elmo_vec bound) {
    return _mm256_and_ps(v, _mm256_cmp_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), value), bound, _CMP_NGE_UQ));
}
ELMO_INLINE int v_any_nan(elmo_vec v) { return _mm256_movemask_ps(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)) != 0; }

ELMO_INLINE elmo_vint vi_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
ELMO_INLINE void vi_store(int32_t *p, elmo_vint v) { _mm256_storeu_si256((__m256i *)p, v); }
ELMO_INLINE elmo_vint vi_max_magnitude(elmo_vint peak, elmo_vec v) {
    return _mm256_max_epi32(peak, _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7fffffff)));
}
ELMO_INLINE void v_store_bytes(uint8_t *p, elmo_vec v) { /* whole numbers from -128 to 127 */
    __m256i whole = _mm256_cvtps_epi32(v);
    __m128i narrow = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packs_epi16(narrow, narrow));
}
/* The magnitude of an input times the weight with the input's sign: two such products fit in 16 bits. */
ELMO_INLINE elmo_vint vi_dot(elmo_vint sum, elmo_vint inputs, elmo_vint weights) {
    __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(inputs), _mm256_sign_epi8(weights, inputs));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
