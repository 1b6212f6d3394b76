/* What AVX2 and AVX-512 have under the same names but for their prefix, ELMO_MM. */

ELMO_INLINE elmo_vec v_load(const float *p) { return ELMO_MM(loadu_ps)(p); }
ELMO_INLINE void v_store(float *p, elmo_vec v) { ELMO_MM(storeu_ps)(p, v); }
ELMO_INLINE elmo_vec v_set(float x) { return ELMO_MM(set1_ps)(x); }
ELMO_INLINE elmo_vec v_fma(elmo_vec a, elmo_vec b, elmo_vec c) { return ELMO_MM(fmadd_ps)(a, b, c); }
ELMO_INLINE elmo_vec v_fnma(elmo_vec a, elmo_vec b, elmo_vec c) { return ELMO_MM(fnmadd_ps)(a, b, c); }
ELMO_INLINE elmo_vec v_min(elmo_vec a, elmo_vec b) { return ELMO_MM(min_ps)(a, b); }
ELMO_INLINE elmo_vec v_max(elmo_vec a, elmo_vec b) { return ELMO_MM(max_ps)(a, b); }
ELMO_INLINE elmo_vint vi_set(int32_t x) { return ELMO_MM(set1_epi32)(x); }
ELMO_INLINE elmo_vint vi_sub(elmo_vint a, elmo_vint b) { return ELMO_MM(sub_epi32)(a, b); }
ELMO_INLINE elmo_vec vi_to_float(elmo_vint v) { return ELMO_MM(cvtepi32_ps)(v); }
