/* 64-bit ARM, with or without the 8-bit dot product (ELMO_DOT) and the 8-bit matrix product (ELMO_I8MM). */
#include <arm_neon.h>

#define ELMO_LANES 4
#define ELMO_MAX_ROWS 8 /* 8 rows x 2 vectors of accumulators, of 32 registers */
#define ELMO_FEW_ROWS 1
#define ELMO_HAS_HALF 1
#define ELMO_UNSIGNED_INPUTS 0

typedef float32x4_t elmo_vec;
typedef int32x4_t elmo_vint;

ELMO_INLINE elmo_vec v_load(const float *p) { return vld1q_f32(p); }
ELMO_INLINE void v_store(float *p, elmo_vec v) { vst1q_f32(p, v); }
ELMO_INLINE void v_store_some(float *p, int64_t num, elmo_vec v) {
    float some[4];
    v_store(some, v);
    for (int64_t lane = 0; lane < num; lane++)
        p[lane] = some[lane];
}
ELMO_INLINE elmo_vec v_load_half(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
ELMO_INLINE elmo_vec v_load_bfloat(const uint16_t *p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }
ELMO_INLINE void v_store_bfloat(uint16_t *p, elmo_vec v) { /* to nearest, ties to even */
    uint32x4_t bits = vreinterpretq_u32_f32(v), odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    bits = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    bits = vbslq_u32(vceqq_f32(v, v), bits, vdupq_n_u32(0x7fc00000));
    vst1_u16(p, vshrn_n_u32(bits, 16));
}

ELMO_INLINE elmo_vec v_set(float x) { return vdupq_n_f32(x); }
ELMO_INLINE elmo_vec v_fma(elmo_vec a, elmo_vec b, elmo_vec c) { return vfmaq_f32(c, a, b); }
ELMO_INLINE elmo_vec v_fnma(elmo_vec a, elmo_vec b, elmo_vec c) { return vfmsq_f32(c, a, b); }
ELMO_INLINE elmo_vec v_min(elmo_vec a, elmo_vec b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
ELMO_INLINE elmo_vec v_max(elmo_vec a, elmo_vec b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
ELMO_INLINE elmo_vec v_round(elmo_vec a) { return vrndnq_f32(a); }
ELMO_INLINE elmo_vec v_times_power_of_two(elmo_vec x, elmo_vec n) { /* -126 <= n <= 127 */
    int32x4_t exponent = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
    return vmulq_f32(x, vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23)));
}
ELMO_INLINE elmo_vec v_where_greater(elmo_vec a, elmo_vec b, elmo_vec yes, elmo_vec no) {
    return vbslq_f32(vcgtq_f32(a, b), yes, no);
}
ELMO_INLINE elmo_vec v_zero_where_outside(elmo_vec v, elmo_vec value, elmo_vec bound) {
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(v), vcgeq_f32(vabsq_f32(value), bound)));
}
ELMO_INLINE int v_any_nan(elmo_vec v) { return vminvq_u32(vceqq_f32(v, v)) == 0; }

ELMO_INLINE elmo_vint vi_load(const void *p) { return vreinterpretq_s32_s8(vld1q_s8((const int8_t *)p)); }
ELMO_INLINE void vi_store(int32_t *p, elmo_vint v) { vst1q_s32(p, v); }
ELMO_INLINE elmo_vint vi_set(int32_t x) { return vdupq_n_s32(x); }
ELMO_INLINE elmo_vint vi_sub(elmo_vint a, elmo_vint b) { return vsubq_s32(a, b); }
ELMO_INLINE elmo_vec vi_to_float(elmo_vint v) { return vcvtq_f32_s32(v); }
ELMO_INLINE elmo_vint vi_max_magnitude(elmo_vint peak, elmo_vec v) {
    return vmaxq_s32(peak, vandq_s32(vreinterpretq_s32_f32(v), vdupq_n_s32(0x7fffffff)));
}
ELMO_INLINE void v_store_bytes(uint8_t *p, elmo_vec v) { /* the lowest 8 bits of whole numbers */
    int16x4_t half = vmovn_s32(vcvtq_s32_f32(v));
    int32x2_t bytes = vreinterpret_s32_s8(vmovn_s16(vcombine_s16(half, half)));
    int32_t four = vget_lane_s32(bytes, 0);
    memcpy(p, &four, sizeof four);
}
ELMO_INLINE elmo_vint vi_dot(elmo_vint sum, elmo_vint inputs, elmo_vint weights) {
    int8x16_t a = vreinterpretq_s8_s32(inputs), b = vreinterpretq_s8_s32(weights);
#if defined(ELMO_DOT)
    return vdotq_s32(sum, a, b);
#else /* two products of at most 127 * 127 fit in 16 bits */
    int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b)), high = vmull_high_s8(a, b);
    return vpadalq_s16(sum, vpaddq_s16(low, high));
#endif
}

#if defined(ELMO_I8MM)
#define ELMO_BYTES_TOGETHER 8
/* Sums of two rows (8 inputs each) and two outputs (likewise): first row's two outputs, then the second row's. */
ELMO_INLINE elmo_vint vi_dot_rows(elmo_vint sums, int8x16_t rows, int8x16_t weights) {
    return vmmlaq_s32(sums, rows, weights);
}
ELMO_INLINE int8x16_t load_row_pair(const uint8_t *rows, int has_second) {
    int8x8_t first = vld1_s8((const int8_t *)rows);
    return vcombine_s8(first, has_second ? vld1_s8((const int8_t *)rows + 8) : vdup_n_s8(0));
}
/* Four inputs of four outputs and the next four inputs of the same -> eight inputs of two outputs, and of the others */
ELMO_INLINE int8x16_t zip_weights(elmo_vint first, elmo_vint second, int high) {
    return vreinterpretq_s8_s32(high ? vzip2q_s32(first, second) : vzip1q_s32(first, second));
}
ELMO_INLINE elmo_vint join_sums(elmo_vint low, elmo_vint high, int second_row) {
    return second_row ? vcombine_s32(vget_high_s32(low), vget_high_s32(high))
                      : vcombine_s32(vget_low_s32(low), vget_low_s32(high));
}
#endif
