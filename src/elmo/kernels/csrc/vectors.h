/* The vectors of one instruction set under common names. The includer defines ELMO_AVX512, ELMO_AVX2 or neither. */
#include <math.h>
#include <string.h>

#if defined(ELMO_AVX512)

#include <immintrin.h>
#define LANES 16
#define MAX_ROWS 12 /* 12 rows x 2 vectors of accumulators, of 32 registers */
#define FEW_ROWS 3  /* up to here, four panels at once keep the multipliers busy: 3 x 8 accumulators */
typedef __m512 vector;
typedef __m512i words;
#define load(p) _mm512_loadu_ps(p)
#define store(p, v) _mm512_storeu_ps(p, v)
#define load_some(p, n) _mm512_maskz_loadu_ps((__mmask16)((1u << (n)) - 1), p)
#define store_some(p, n, v) _mm512_mask_storeu_ps(p, (__mmask16)((1u << (n)) - 1), v)
#define set_all(x) _mm512_set1_ps(x)
#define multiply_add(a, b, c) _mm512_fmadd_ps(a, b, c)
#define negative_multiply_add(a, b, c) _mm512_fnmadd_ps(a, b, c)
#define add(a, b) _mm512_add_ps(a, b)
#define subtract(a, b) _mm512_sub_ps(a, b)
#define multiply(a, b) _mm512_mul_ps(a, b)
#define divide(a, b) _mm512_div_ps(a, b)
#define smaller(a, b) _mm512_min_ps(a, b)
#define larger(a, b) _mm512_max_ps(a, b)
#define nearest(a) _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define times_power_of_two(x, n) _mm512_scalef_ps(x, n)
#define zero_unless_inside(v, value, bound)                                                                            \
    _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(_mm512_abs_ps(value), bound, _CMP_LT_OQ), v)
#define where_larger(a, b, yes, no) _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), no, yes)
static inline __m512 load_narrow(const uint16_t *p) { /* bfloat16 */
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
static inline void store_narrow(uint16_t *p, __m512 v) { /* to nearest, ties to even */
    __m512i bits = _mm512_castps_si512(v), odd = _mm512_and_epi32(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    bits = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(bits));
}
#define load_half(p) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p)))
#define HAS_HALF 1
#define load_words(p) _mm512_loadu_si512((const void *)(p))
#define set_all_words(x) _mm512_set1_epi32(x)
#define to_floats(w) _mm512_cvtepi32_ps(w)
#define subtract_words(a, b) _mm512_sub_epi32(a, b)
#define zero_words() _mm512_setzero_si512()
#define store_bytes(p, v) /* whole numbers from 0 to 255 */                                                            \
    _mm_storeu_si128((__m128i *)(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)))
#if defined(ELMO_VNNI)
#define INPUT_LEVELS 127
static inline __attribute__((always_inline)) __m512i multiply_add_bytes(__m512i sum, __m512i a, __m512i b) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b)); /* GCC 12 copies the sums around the intrinsic */
    return sum;
}
#else
#define INPUT_LEVELS 63 /* pairs of products are summed in 16 bits: 2 x 127 x 127 fits */
#define multiply_add_bytes(sum, a, b)                                                                                  \
    _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_maddubs_epi16(a, b), _mm512_set1_epi16(1)))
#endif

#elif defined(ELMO_AVX2)

#include <immintrin.h>
#define LANES 8
#define MAX_ROWS 6
#define FEW_ROWS 1
typedef __m256 vector;
typedef __m256i words;
#define load(p) _mm256_loadu_ps(p)
#define store(p, v) _mm256_storeu_ps(p, v)
static inline __m256i elmo_mask(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
#define load_some(p, n) _mm256_maskload_ps(p, elmo_mask(n))
#define store_some(p, n, v) _mm256_maskstore_ps(p, elmo_mask(n), v)
#define set_all(x) _mm256_set1_ps(x)
#define multiply_add(a, b, c) _mm256_fmadd_ps(a, b, c)
#define negative_multiply_add(a, b, c) _mm256_fnmadd_ps(a, b, c)
#define add(a, b) _mm256_add_ps(a, b)
#define subtract(a, b) _mm256_sub_ps(a, b)
#define multiply(a, b) _mm256_mul_ps(a, b)
#define divide(a, b) _mm256_div_ps(a, b)
#define smaller(a, b) _mm256_min_ps(a, b)
#define larger(a, b) _mm256_max_ps(a, b)
#define nearest(a) _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
static inline __m256 times_power_of_two(__m256 x, __m256 n) {
    __m256i exponent = _mm256_cvtps_epi32(_mm256_max_ps(n, _mm256_set1_ps(-126.0f)));
    return _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(exponent, _mm256_set1_epi32(127)), 23)));
}
#define zero_unless_inside(v, value, bound)                                                                            \
    _mm256_and_ps(v, _mm256_cmp_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), value), bound, _CMP_LT_OQ))
#define where_larger(a, b, yes, no) _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_GT_OQ))
static inline __m256 load_narrow(const uint16_t *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
static inline void store_narrow(uint16_t *p, __m256 v) {
    __m256i bits = _mm256_castps_si256(v), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    bits = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    _mm_storeu_si128((__m128i *)p,
                     _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1)));
}
#define load_half(p) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p)))
#define HAS_HALF 1
#define load_words(p) _mm256_loadu_si256((const __m256i *)(p))
#define set_all_words(x) _mm256_set1_epi32(x)
#define to_floats(w) _mm256_cvtepi32_ps(w)
#define subtract_words(a, b) _mm256_sub_epi32(a, b)
#define zero_words() _mm256_setzero_si256()
static inline void store_bytes(uint8_t *p, __m256 v) {
    __m256i whole = _mm256_cvtps_epi32(v);
    __m128i narrow = _mm_packus_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(narrow, narrow));
}
#define INPUT_LEVELS 63
#define multiply_add_bytes(sum, a, b)                                                                                  \
    _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)))

#else /* any other processor (NEON, SSE2, ...): the compiler's own vectors of four */

#define LANES 4
#define MAX_ROWS 4
#define FEW_ROWS 1
typedef float vector __attribute__((vector_size(16), aligned(4)));
typedef int32_t words __attribute__((vector_size(16), aligned(4)));
static inline vector load(const float *p) { vector v; memcpy(&v, p, sizeof v); return v; }
static inline void store(float *p, vector v) { memcpy(p, &v, sizeof v); }
static inline vector load_some(const float *p, int64_t n) { vector v = {0, 0, 0, 0}; memcpy(&v, p, 4 * n); return v; }
static inline void store_some(float *p, int64_t n, vector v) { memcpy(p, &v, 4 * n); }
static inline vector set_all(float x) { return (vector){x, x, x, x}; }
static inline vector multiply_add(vector a, vector b, vector c) { return a * b + c; }
static inline vector negative_multiply_add(vector a, vector b, vector c) { return c - a * b; }
static inline vector add(vector a, vector b) { return a + b; }
static inline vector subtract(vector a, vector b) { return a - b; }
static inline vector multiply(vector a, vector b) { return a * b; }
static inline vector divide(vector a, vector b) { return a / b; }
static inline vector smaller(vector a, vector b) { words m = a < b; return (vector)(((words)a & m) | ((words)b & ~m)); }
static inline vector larger(vector a, vector b) { words m = a > b; return (vector)(((words)a & m) | ((words)b & ~m)); }
static inline vector nearest(vector a) { /* |a| < 2^22: adding 1.5 * 2^23 leaves no fraction */
    vector magic = set_all(12582912.0f), sum = a + magic;
    return sum - magic;
}
static inline vector times_power_of_two(vector x, vector n) {
    n = larger(n, set_all(-126.0f));
    return x * (vector)((__builtin_convertvector(n, words) + (words){127, 127, 127, 127}) << 23);
}
static inline vector zero_unless_inside(vector v, vector value, vector bound) {
    words inside = (value < bound) & (value > -bound);
    return (vector)((words)v & inside);
}
static inline vector where_larger(vector a, vector b, vector yes, vector no) {
    words m = a > b;
    return (vector)(((words)yes & m) | ((words)no & ~m));
}
static inline vector load_narrow(const uint16_t *p) {
    return (vector)((words){p[0], p[1], p[2], p[3]} << 16);
}
static inline void store_narrow(uint16_t *p, vector v) {
    uint32_t bits[LANES];
    memcpy(bits, &v, sizeof bits);
    for (int lane = 0; lane < LANES; lane++)
        p[lane] = (uint16_t)((bits[lane] + ((bits[lane] >> 16) & 1) + 0x7fff) >> 16);
}
#define HAS_HALF 0
static inline words load_words(const void *p) { words w; memcpy(&w, p, sizeof w); return w; }
static inline words set_all_words(int32_t x) { return (words){x, x, x, x}; }
static inline vector to_floats(words w) { return __builtin_convertvector(w, vector); }
static inline words subtract_words(words a, words b) { return a - b; }
static inline words zero_words(void) { return (words){0, 0, 0, 0}; }
static inline void store_bytes(uint8_t *p, vector v) {
    for (int lane = 0; lane < LANES; lane++)
        p[lane] = (uint8_t)v[lane];
}
#define INPUT_LEVELS 127
static inline words multiply_add_bytes(words sum, words a, words b) {
    uint8_t from[16];
    int8_t with[16];
    memcpy(from, &a, 16);
    memcpy(with, &b, 16);
    for (int lane = 0; lane < 4; lane++)
        for (int byte = 0; byte < 4; byte++)
            sum[lane] += (int32_t)from[4 * lane + byte] * with[4 * lane + byte];
    return sum;
}

#endif

#define PANEL (2 * LANES)
#define ZERO_POINT (INPUT_LEVELS + 1)
