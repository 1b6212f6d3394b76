/* The kernels for WebAssembly: one model per instance, one thread, no libc. serve/page/elmo.js calls the functions
 * below; packages/elmo-js/build_wasm.py compiles this file.
 *
 * JavaScript writes weights into memory that elmo_allocate returns and passes their addresses on. Sizes are int32,
 * because int64 arguments would be BigInt there.
 */
#define ELMO_SUFFIX portable
#include "kernels.inc"

#include <stddef.h>

#define ELMO_EXPORT(name) __attribute__((export_name(#name))) name
#define ELMO_MAX_LAYERS 8
#define ELMO_PAGE_BYTES 65536

extern unsigned char __heap_base;

static uintptr_t next_free;
static elmo_word_encoder encoder;
static elmo_lstm lstms[2][ELMO_MAX_LAYERS];
static elmo_direction directions[2];
static elmo_meaning meaning;

void elmo_run_both(elmo_task task, void *first, void *second, int64_t single_threaded) {
    (void)single_threaded;
    task(first);
    task(second);
}

/* The first 16 digits of a SHA-256 over the sources, see hatch_build.py: a test looks for them in the file. */
const char *ELMO_EXPORT(elmo_source_hash)(void) { return ELMO_SOURCE_HASH; }

/* Memory that is never freed, aligned for vectors; 0 if there is no more. */
void *ELMO_EXPORT(elmo_allocate)(int32_t num_bytes) {
    if (!next_free)
        next_free = (uintptr_t)&__heap_base;
    uintptr_t start = (next_free + 63) & ~(uintptr_t)63;
    uintptr_t end = start + (uint32_t)num_bytes, size = (uintptr_t)__builtin_wasm_memory_size(0) * ELMO_PAGE_BYTES;
    if (end < start)
        return 0;
    if (end > size && __builtin_wasm_memory_grow(0, (end - size + ELMO_PAGE_BYTES - 1) / ELMO_PAGE_BYTES) == (size_t)-1)
        return 0;
    next_free = end;
    return (void *)start;
}

int32_t ELMO_EXPORT(elmo_panel)(void) { return ELMO_PANEL; }
int32_t ELMO_EXPORT(elmo_max_layers)(void) { return ELMO_MAX_LAYERS; }
int32_t ELMO_EXPORT(elmo_max_highways)(void) { return ELMO_MAX_HIGHWAYS; }

/* ---- the network ---- */

static elmo_matrix *find_matrix(int32_t direction, int32_t layer, int32_t which) {
    if (direction < 0) /* of the word encoder: highways, then the projection */
        return which < ELMO_MAX_HIGHWAYS ? &encoder.highways[which] : &encoder.projection;
    elmo_lstm *lstm = &lstms[direction][layer];
    return which == 0 ? &lstm->from_inputs : which == 1 ? &lstm->from_state : &lstm->projection;
}

void ELMO_EXPORT(elmo_set_matrix)(int32_t direction, int32_t layer, int32_t which, int32_t num_inputs, int32_t num_outputs,
                             int32_t num_groups, const int8_t *weights, const float *scales) {
    *find_matrix(direction, layer, which) = (elmo_matrix){
        .num_inputs = num_inputs, .num_outputs = num_outputs, .num_groups = num_groups, .int8 = weights,
        .scales = scales, .sums = (const int32_t *)scales}; /* sums are read for unsigned inputs only */
}

void ELMO_EXPORT(elmo_set_layer)(int32_t direction, int32_t layer, const float *bias, float cell_clip,
                            float projection_clip, int32_t residual) {
    lstms[direction][layer].bias = bias;
    lstms[direction][layer].cell_clip = cell_clip;
    lstms[direction][layer].projection_clip = projection_clip;
    directions[direction].layers = lstms[direction];
    directions[direction].num_layers = layer + 1;
    directions[direction].residual = residual;
}

void ELMO_EXPORT(elmo_set_characters)(int32_t num_features, int32_t num_filters, int32_t num_characters,
                                 const int64_t *widths, const int64_t *channels, const float *table, int32_t row_size,
                                 const float *bias, int32_t alphabet_size, int32_t activation, int32_t num_highways) {
    encoder.table = (elmo_char_table){num_features, num_filters, num_characters, widths, channels, table, row_size, bias};
    encoder.alphabet_size = alphabet_size;
    encoder.activation = activation;
    encoder.num_highways = num_highways;
}

void ELMO_EXPORT(elmo_set_bias)(int32_t which, const float *bias) {
    if (which < ELMO_MAX_HIGHWAYS)
        encoder.highway_biases[which] = bias;
    else
        encoder.projection_bias = bias;
}

/* Characters of words -> their vectors. This and the functions below return the bytes of scratch memory they need if
 * there are fewer, having done nothing, else 0; -1 for ids that are out of range. */
int32_t ELMO_EXPORT(elmo_encode)(const int64_t *char_ids, int32_t num_words, float *vectors, void *scratch,
                            int32_t scratch_bytes) {
    return (int32_t)elmo_encode_portable(&encoder, char_ids, num_words, 1, vectors, scratch, scratch_bytes);
}

/* Rows times the projection of the word encoder, for models with a table of words. */
int32_t ELMO_EXPORT(elmo_project)(const float *rows, int32_t num_rows, float *outputs, void *scratch,
                             int32_t scratch_bytes) {
    int64_t needed = elmo_multiply_scratch_portable(&encoder.projection, num_rows);
    if (needed > scratch_bytes)
        return (int32_t)needed;
    elmo_multiply_portable(&encoder.projection, encoder.projection_bias, rows, num_rows, outputs, scratch);
    return 0;
}

/* Sentences in both directions, step by step as kernels.h describes packed rows: the `num_vectors` mixes of layers of
 * each word, (num_rows, num_vectors, 2 * dim). */
int32_t ELMO_EXPORT(elmo_run)(const float *words, int32_t num_words, const int64_t *sources, const int64_t *targets,
                         const int64_t *back_sources, const int64_t *back_targets, const int64_t *counts,
                         int32_t num_steps, int32_t num_rows, const float *mix, int32_t num_vectors, float *result,
                         void *scratch, int32_t scratch_bytes) {
    int64_t dim = lstms[0][0].from_state.num_inputs;
    for (int number = 0; number < 2; number++)
        directions[number].window = (elmo_window){
            .num_steps = num_steps, .counts = counts, .num_rows = num_rows, .words = words, .num_words = num_words,
            .sources = number ? back_sources : sources, .targets = number ? back_targets : targets,
            .num_state_rows = counts[0], .num_vectors = num_vectors, .weights = mix, .result = result + number * dim,
            .result_stride = 2 * dim};
    return (int32_t)elmo_forward_portable(directions, 2, 1, scratch, scratch_bytes);
}

/* ---- meanings and predictions ---- */

/* `settings` are the float members of elmo_meaning, from `focus` on, in their order. */
void ELMO_EXPORT(elmo_set_meaning)(int32_t dim, int32_t top_dim, int32_t state_dim, int32_t num_candidates, int32_t window,
                              const int8_t *vectors, const float *scales, const int8_t *softmax,
                              const float *settings) {
    meaning = (elmo_meaning){.dim = dim, .top_dim = top_dim, .state_dim = state_dim, .num_candidates = num_candidates,
                             .window = window, .vectors = vectors, .scales = scales, .softmax = softmax};
    memcpy(&meaning.focus, settings, sizeof meaning - offsetof(elmo_meaning, focus));
}

int32_t ELMO_EXPORT(elmo_find_all_meanings)(const float *top, const int64_t *tokens, const int8_t *token_vectors,
                                       const float *token_scales, const float *token_weights, int32_t num_spans,
                                       const int64_t *spans, int32_t longest, const uint16_t *candidates,
                                       const float *factors, const float *offsets, const float *priors,
                                       void *scratch, int32_t scratch_bytes) {
    elmo_meaning_batch batch = {top, tokens, token_vectors, token_scales, token_weights, num_spans, spans, longest,
                                candidates, factors, offsets, priors};
    return (int32_t)elmo_meanings_portable(&meaning, &batch, 1, scratch, scratch_bytes);
}

void ELMO_EXPORT(elmo_find_nearest)(const int8_t *vectors, const float *scales, int32_t num_rows, int32_t dim,
                               const int8_t *query, float query_scale, int32_t num_nearest, float *cosines,
                               int32_t *nearest, float *nearest_cosines) {
    elmo_nearest_portable(vectors, scales, num_rows, dim, query, &query_scale, 1, num_nearest, cosines, nearest,
                          nearest_cosines);
}

static int32_t elmo_dot_shorts(const int16_t *restrict a, const int8_t *restrict b, int64_t num) {
    v128_t sums = wasm_i32x4_const_splat(0);
    int64_t at = 0;
    for (; at + 8 <= num; at += 8)
        sums = wasm_i32x4_add(sums, wasm_i32x4_dot_i16x8(wasm_v128_load(a + at), wasm_i16x8_load8x8(b + at)));
    int32_t sum = elmo_sum_lanes(sums);
    for (; at < num; at++)
        sum += (int32_t)a[at] * (int32_t)b[at];
    return sum;
}

/* Whole numbers from -levels to levels; returns what they are to be multiplied by. */
static float elmo_to_shorts(const float *values, int64_t num, float levels, int16_t *rounded) {
    float peak = 0.0f;
    for (int64_t at = 0; at < num; at++)
        peak = fabsf(values[at]) > peak ? fabsf(values[at]) : peak;
    float factor = peak > 0.0f ? levels / peak : 0.0f;
    for (int64_t at = 0; at < num; at++)
        rounded[at] = (int16_t)((values[at] * factor + 12582912.0f) - 12582912.0f);
    return peak / levels;
}

/* (num_states, dim) and the 8-bit rows of all words -> logits (num_states, num_words). States are rounded to 16 bits;
 * `rounded` (dim,) is scratch memory. */
void ELMO_EXPORT(elmo_predict)(const float *states, int32_t num_states, int32_t dim, const int8_t *softmax,
                          const float *scales, const float *bias, int32_t num_words, float levels, int16_t *rounded,
                          float *logits) {
    for (int32_t number = 0; number < num_states; number++) {
        float scale = elmo_to_shorts(states + number * dim, dim, levels, rounded);
        for (int32_t word = 0; word < num_words; word++) {
            int32_t dot = elmo_dot_shorts(rounded, softmax + (int64_t)word * dim, dim);
            logits[(int64_t)number * num_words + word] = (float)dot * (scale * scales[word]) + bias[word];
        }
    }
}
