/* Call every kernel of one variant with random shapes and values made from seeds, and print the bits of the results.
 *
 * usage: driver VARIANT PRECISION FIRST_SEED NUM_SEEDS [NUM_THREADS]   precision: float32 or int8; from two threads on,
 *                                                                      calls use the helper thread, too
 * usage: driver variants                              what this processor runs
 * usage: driver bench VARIANT PRECISION NUM_WORDS     a layer of en-small, for counting instructions
 *
 * Every buffer has exactly the size that the library may touch, so that sanitizers see one byte too many. The values
 * depend on the seed alone: variants, compilers and processors can be compared by their output.
 */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

typedef struct {
    const char *name;
    int64_t (*panel)(void);
    int64_t (*multiply_scratch)(const elmo_matrix *, int64_t);
    void (*multiply)(const elmo_matrix *, const float *, const float *, int64_t, float *, void *);
    int64_t (*forward)(const elmo_direction *, int64_t, int64_t, void *, int64_t);
    int64_t (*encode)(const elmo_word_encoder *, const int64_t *, int64_t, int64_t, float *, void *, int64_t);
    void (*convolve)(const elmo_char_table *, const int64_t *, const int64_t *, int64_t, float *, float *);
    void (*convolve_back)(const elmo_char_table *, const int64_t *, int64_t, const float *, const float *, float *);
    void (*train_forward)(int64_t, int64_t, int64_t, const void *, const void *, const float *, const float *,
                          const float *, float, float *, float *, float *, void *);
    void (*train_backward)(int64_t, int64_t, int64_t, const float *, const float *, const float *, const float *,
                           const float *, const void *, float, float *, void *, float *);
} kernels;

#define KERNELS(V)                                                                                                     \
    {#V,                 elmo_panel_##V,    elmo_multiply_scratch_##V, elmo_multiply_##V,      elmo_forward_##V,       \
     elmo_encode_##V,    elmo_convolve_##V, elmo_convolve_back_##V,    elmo_train_forward_##V, elmo_train_backward_##V}

static const kernels all_kernels[] = {
#if defined(ELMO_X86)
    KERNELS(avx512vnni), KERNELS(avx512), KERNELS(avx2),
#elif defined(ELMO_ARM)
    KERNELS(neoni8mm), KERNELS(neondot), KERNELS(neon),
#endif
    KERNELS(portable),
};
static const kernels *k;
static int use_int8, use_helper;
static _Thread_local int is_strange; /* some values are NaN, infinite or huge */
static _Thread_local uint64_t state;
static _Thread_local FILE *out;

/* ---- memory that is freed after each case, and random values ---- */

static _Thread_local void *owned[4096];
static _Thread_local int num_owned;

static void *get_memory(int64_t num_bytes) {
    void *memory = aligned_alloc(64, (size_t)(num_bytes / 64 * 64 + 64));
#if defined(__SANITIZE_ADDRESS__)
    free(memory);
    memory = malloc((size_t)num_bytes); /* exact: the library needs no alignment */
#endif
    if (!memory || num_owned == 4096)
        exit(3);
    owned[num_owned++] = memory;
    return memory;
}

static void free_memory(void) {
    while (num_owned)
        free(owned[--num_owned]);
}

static uint64_t draw(void) {
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * 2685821657736338717u;
}

static int64_t draw_below(int64_t bound) { return (int64_t)(draw() >> 33) % bound; }

static float draw_value(void) {
    static const float strange[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-40f, -0.0f, 0.0f};
    if (is_strange && draw_below(200) == 0)
        return strange[draw_below(8)];
    return (float)((int64_t)(draw() >> 40) - (1 << 23)) / (1 << 22);
}

static float *draw_values(int64_t num, float scale) {
    float *values = get_memory(4 * num);
    for (int64_t i = 0; i < num; i++)
        values[i] = draw_value() * scale;
    return values;
}

static int64_t *draw_ids(int64_t num, int64_t bound) {
    int64_t *ids = get_memory(8 * num);
    for (int64_t i = 0; i < num; i++)
        ids[i] = draw_below(bound);
    return ids;
}

static void print_values(const char *name, const float *values, int64_t num) {
    uint64_t hash = 14695981039346656037u;
    for (int64_t i = 0; i < num; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, 4);
        hash = (hash ^ (values[i] != values[i] ? 0x7fc00000u : bits)) * 1099511628211u;
    }
    fprintf(out, "%s %" PRId64 " %016" PRIx64 "\n", name, num, hash);
}

static void print_bfloats(const char *name, const uint16_t *values, int64_t num) {
    float *wide = get_memory(4 * num);
    for (int64_t i = 0; i < num; i++) {
        uint32_t bits = (uint32_t)values[i] << 16;
        memcpy(wide + i, &bits, 4);
    }
    print_values(name, wide, num);
}

/* ---- matrices in panels, as kernels/matrix.py packs them ---- */

static void pack_bytes(const float *weight, int64_t place, int64_t panel, elmo_matrix *matrix) {
    int64_t num_inputs = matrix->num_inputs, rounded = (num_inputs + 3) / 4 * 4;
    float peak = 1e-30f;
    for (int64_t i = 0; i < num_inputs; i++)
        peak = fabsf(weight[i]) > peak ? fabsf(weight[i]) : peak;
    ((float *)matrix->scales)[place] = peak / 127;
    int32_t sum = 0;
    for (int64_t i = 0; i < num_inputs; i++) {
        int8_t value = (int8_t)lrintf(weight[i] / (peak / 127));
        int64_t at = place / panel * panel * rounded + (i / 4 * panel + place % panel) * 4 + i % 4;
        ((int8_t *)matrix->int8)[at] = value;
        sum += value;
    }
    ((int32_t *)matrix->sums)[place] = 128 * sum;
}

static elmo_matrix make_matrix(int64_t num_inputs, int64_t num_outputs, int64_t num_groups) {
    int64_t panel = k->panel(), padded = (num_outputs + panel - 1) / panel * panel, places = num_groups * padded;
    int64_t size = places * ((num_inputs + 3) / 4 * 4);
    elmo_matrix matrix = {num_inputs, num_outputs, num_groups, NULL, NULL, NULL, NULL, NULL};
    int was_strange = is_strange;
    is_strange = is_strange && !use_int8; /* weights of 8 bits are finite */
    if (use_int8) {
        matrix.int8 = memset(get_memory(size), 0, size);
        matrix.scales = memset(get_memory(4 * places), 0, 4 * places);
        matrix.sums = memset(get_memory(4 * places), 0, 4 * places);
    } else {
        matrix.float32 = memset(get_memory(4 * places * num_inputs), 0, 4 * places * num_inputs);
    }
    float scale = 1.0f / sqrtf((float)num_inputs);
    for (int64_t group = 0; group < num_groups; group++)
        for (int64_t output = 0; output < num_outputs; output++) {
            int64_t place = group * padded + output;
            float *weight = draw_values(num_inputs, scale);
            float *column = (float *)matrix.float32 + place / panel * panel * num_inputs + place % panel;
            if (use_int8)
                pack_bytes(weight, place, panel, &matrix);
            for (int64_t i = 0; i < num_inputs && !use_int8; i++)
                column[i * panel] = weight[i];
            free(owned[--num_owned]);
        }
    is_strange = was_strange;
    return matrix;
}

/* ---- cases ---- */

static void run_multiply(void) {
    int64_t num_groups = draw_below(2) ? 1 : 4, num_rows = draw_below(30);
    int64_t num_inputs = 1 + draw_below(70), num_outputs = 1 + draw_below(90);
    elmo_matrix matrix = make_matrix(num_inputs, num_outputs, num_groups);
    int64_t row_size = matrix.num_outputs * num_groups;
    float *bias = draw_below(2) ? draw_values(row_size, 1) : NULL, *inputs = draw_values(num_rows * num_inputs, 1);
    float *outputs = get_memory(4 * num_rows * row_size);
    k->multiply(&matrix, bias, inputs, num_rows, outputs, get_memory(k->multiply_scratch(&matrix, num_rows)));
    print_values("multiply", outputs, num_rows * row_size);
}

static elmo_direction make_direction(int64_t num_layers, int64_t dim, int64_t cell_dim, int is_projected) {
    elmo_lstm *layers = get_memory(num_layers * (int64_t)sizeof(elmo_lstm));
    for (int64_t i = 0; i < num_layers; i++) {
        layers[i] = (elmo_lstm){.cell_clip = draw_below(2) ? 3.0f : INFINITY, .projection_clip = 0.5f};
        layers[i].from_inputs = make_matrix(dim, cell_dim, 4);
        layers[i].from_state = make_matrix(dim, cell_dim, 4);
        if (is_projected)
            layers[i].projection = make_matrix(cell_dim, dim, 1);
        layers[i].bias = draw_values(4 * cell_dim, draw_below(5) ? 1.0f : 1e6f);
    }
    elmo_window window = {.num_steps = draw_below(12)};
    window.num_words = 1 + draw_below(9);
    window.num_vectors = 1 + draw_below(3);
    int64_t *counts = get_memory(8 * window.num_steps), count = 1 + draw_below(draw_below(4) ? 14 : 110);
    window.num_state_rows = count;
    for (int64_t step = 0; step < window.num_steps; step++) {
        counts[step] = count;
        window.num_rows += count;
        count = 1 + draw_below(count);
    }
    window.counts = counts;
    int64_t *targets = get_memory(8 * window.num_rows);
    for (int64_t row = 0; row < window.num_rows; row++)
        targets[row] = window.num_rows - 1 - row;
    window.targets = targets;
    window.sources = draw_ids(window.num_rows, window.num_words);
    window.words = draw_values(window.num_words * dim, 1);
    window.weights = draw_values(window.num_vectors * (num_layers + 1), 1);
    window.result_stride = dim;
    window.result = get_memory(4 * window.num_rows * window.num_vectors * dim);
    if (draw_below(2)) {
        window.has_state = draw_below(2);
        window.hidden = draw_values(num_layers * window.num_state_rows * dim, 1);
        window.cell = draw_values(num_layers * window.num_state_rows * cell_dim, 1);
    }
    return (elmo_direction){layers, num_layers, draw_below(2), window};
}

static void run_read(void) {
    int64_t num_directions = 1 + draw_below(2), num_layers = 1 + draw_below(3), cell_dim = 1 + draw_below(70);
    int is_projected = draw_below(3) > 0;
    int64_t dim = is_projected ? 1 + draw_below(50) : cell_dim;
    elmo_direction directions[2];
    for (int64_t i = 0; i < num_directions; i++)
        directions[i] = make_direction(num_layers, dim, cell_dim, is_projected);
    int64_t needed = k->forward(directions, num_directions, !use_helper, NULL, 0);
    int64_t status = k->forward(directions, num_directions, !use_helper, get_memory(needed), needed);
    fprintf(out, "read %" PRId64 "\n", status);
    for (int64_t i = 0; i < num_directions; i++) {
        const elmo_window *window = &directions[i].window;
        print_values("result", window->result, window->num_rows * window->num_vectors * dim);
        if (window->hidden && (window->has_state || window->num_steps)) {
            print_values("hidden", window->hidden, num_layers * window->num_state_rows * dim);
            print_values("cell", window->cell, num_layers * window->num_state_rows * cell_dim);
        }
        if (window->num_rows) { /* hostile ids are refused */
            ((int64_t *)window->sources)[draw_below(window->num_rows)] = draw_below(2) ? -1 : window->num_words;
            fprintf(out, "hostile %" PRId64 "\n", k->forward(directions + i, 1, 1, NULL, 0));
        }
    }
}

static elmo_char_table make_table(int64_t alphabet_size) {
    elmo_char_table table = {.num_filters = 1 + draw_below(4)};
    table.num_characters = 4 + draw_below(8);
    int64_t *widths = get_memory(8 * table.num_filters), *channels = get_memory(8 * table.num_filters);
    for (int64_t i = 0; i < table.num_filters; i++) {
        widths[i] = 1 + draw_below(4);
        channels[i] = 1 + draw_below(40);
        table.num_features += channels[i];
        table.row_size += widths[i] * channels[i];
    }
    table.widths = widths;
    table.channels = channels;
    table.table = draw_values(alphabet_size * table.row_size, 1);
    table.bias = draw_values(table.num_features, 1);
    return table;
}

static void run_convolve(void) {
    int64_t num_words = draw_below(9), alphabet_size = 1 + draw_below(12);
    elmo_char_table table = make_table(alphabet_size);
    int64_t *ids = draw_ids(num_words * table.num_characters, alphabet_size);
    int64_t *num_starts = get_memory(8 * num_words), num = num_words * table.num_features;
    for (int64_t word = 0; word < num_words; word++)
        num_starts[word] = 1 + draw_below(table.num_characters);
    float *features = get_memory(4 * num), *starts = get_memory(4 * num);
    k->convolve(&table, ids, num_starts, num_words, features, starts);
    print_values("features", features, num);
    print_values("starts", starts, num);
    k->convolve(&table, ids, num_starts, num_words, features, NULL);
    print_values("features", features, num);
    int64_t size = alphabet_size * table.row_size;
    float *grad_table = memset(get_memory(4 * size), 0, 4 * size);
    k->convolve_back(&table, ids, num_words, starts, draw_values(num, 1), grad_table);
    print_values("grad_table", grad_table, size);
}

static void run_encode(void) {
    int64_t num_words = draw_below(30) ? draw_below(12) : 250, alphabet_size = 1 + draw_below(12);
    elmo_word_encoder encoder = {.alphabet_size = alphabet_size, .activation = draw_below(2)};
    encoder.table = make_table(alphabet_size);
    int64_t num_features = encoder.table.num_features, dim = num_features;
    encoder.num_highways = draw_below(3);
    for (int64_t i = 0; i < encoder.num_highways; i++) {
        encoder.highways[i] = make_matrix(num_features, 2 * num_features, 1);
        encoder.highway_biases[i] = draw_values(2 * num_features, 1);
    }
    if (draw_below(2)) {
        dim = 1 + draw_below(40);
        encoder.projection = make_matrix(num_features, dim, 1);
        encoder.projection_bias = draw_values(dim, 1);
    }
    int64_t num_ids = num_words * encoder.table.num_characters, *ids = draw_ids(num_ids, alphabet_size);
    float *vectors = get_memory(4 * num_words * dim);
    int64_t needed = k->encode(&encoder, ids, num_words, !use_helper, vectors, NULL, 0);
    void *scratch = get_memory(needed);
    fprintf(out, "encode %" PRId64 "\n", k->encode(&encoder, ids, num_words, !use_helper, vectors, scratch, needed));
    print_values("vectors", vectors, num_words * dim);
    if (num_ids) { /* hostile ids are refused */
        static const int64_t hostile[] = {-1, INT64_MIN, INT64_MAX, 1 << 20};
        ids[draw_below(num_ids)] = hostile[draw_below(4)];
        fprintf(out, "hostile %" PRId64 "\n", k->encode(&encoder, ids, num_words, 1, vectors, scratch, needed));
    }
}

static void *draw_narrow(int64_t num, int64_t narrow) {
    float *values = draw_values(num, 1);
    if (!narrow)
        return values;
    uint16_t *narrowed = get_memory(2 * num);
    for (int64_t i = 0; i < num; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, 4);
        narrowed[i] = (uint16_t)(bits >> 16);
    }
    return narrowed;
}

static void print_narrow(const char *name, const void *values, int64_t num, int64_t narrow) {
    if (narrow)
        print_bfloats(name, values, num);
    else
        print_values(name, values, num);
}

static void run_training(void) {
    int64_t num_rows = 1 + draw_below(6), cell_dim = 1 + draw_below(70), num = num_rows * cell_dim;
    int64_t narrow = draw_below(2), size = narrow ? 2 : 4;
    float clip = draw_below(2) ? 0.5f : INFINITY;
    const void *from_inputs = draw_narrow(4 * num, narrow), *from_state = draw_narrow(4 * num, narrow);
    float *bias = draw_values(4 * cell_dim, 1), *previous = draw_values(num, 1), *keep = draw_values(num_rows, 1);
    float *gates = get_memory(16 * num), *cell = get_memory(4 * num), *tanh_cells = get_memory(4 * num);
    void *hidden = get_memory(size * num);
    k->train_forward(num_rows, cell_dim, narrow, from_inputs, from_state, bias, previous, keep, clip, gates, cell,
                     tanh_cells, hidden);
    print_values("gates", gates, 4 * num);
    print_values("cell", cell, num);
    print_values("tanh_cells", tanh_cells, num);
    print_narrow("hidden", hidden, num, narrow);
    float *grad_cell = draw_values(num, 1), *grad_bias = draw_values(4 * cell_dim, 1);
    void *grad_gates = get_memory(4 * size * num);
    k->train_backward(num_rows, cell_dim, narrow, gates, previous, keep, cell, tanh_cells, draw_narrow(num, narrow),
                      clip, grad_cell, grad_gates, grad_bias);
    print_values("grad_cell", grad_cell, num);
    print_values("grad_bias", grad_bias, 4 * cell_dim);
    print_narrow("grad_gates", grad_gates, 4 * num, narrow);
}

static void run_bench(int64_t num_words) {
    elmo_direction direction = {NULL, 1, 0, {0}};
    int64_t dim = 256, cell_dim = 512, *counts = get_memory(8 * num_words), *places = get_memory(8 * num_words);
    elmo_lstm layer = {.cell_clip = 3.0f, .projection_clip = 3.0f, .bias = draw_values(4 * cell_dim, 1)};
    layer.from_inputs = make_matrix(dim, cell_dim, 4);
    layer.from_state = make_matrix(dim, cell_dim, 4);
    layer.projection = make_matrix(cell_dim, dim, 1);
    for (int64_t i = 0; i < num_words; i++)
        counts[i] = 1, places[i] = i;
    float *words = draw_values(num_words * dim, 1), weights[] = {0, 1};
    direction.layers = &layer;
    direction.window = (elmo_window){
        .num_steps = num_words, .counts = counts, .num_rows = num_words, .words = words, .num_words = num_words,
        .sources = places, .targets = places, .num_state_rows = 1, .num_vectors = 1, .weights = weights,
        .result = get_memory(4 * num_words * dim), .result_stride = dim};
    int64_t needed = k->forward(&direction, 1, 1, NULL, 0);
    k->forward(&direction, 1, 1, get_memory(needed), needed);
    print_values("bench", direction.window.result, num_words * dim);
}

static int choose(const char *variant, const char *precision) {
    for (size_t i = 0; i < sizeof all_kernels / sizeof *all_kernels; i++)
        if (strcmp(all_kernels[i].name, variant) == 0)
            k = &all_kernels[i];
    use_int8 = strcmp(precision, "int8") == 0;
    return k != NULL;
}

typedef struct {
    int64_t first, num; /* seeds */
    char *text;
    size_t size;
    pthread_t thread;
} work;

static void *run_seeds(void *argument) {
    static void (*const cases[])(void) = {run_multiply, run_read, run_convolve, run_encode, run_training};
    work *mine = argument;
    out = open_memstream(&mine->text, &mine->size);
    for (int64_t seed = mine->first; seed < mine->first + mine->num; seed++) {
        state = (uint64_t)seed * 0x9e3779b97f4a7c15u + 1;
        draw();
        is_strange = seed % 3 == 0;
        fprintf(out, "seed %" PRId64 "\n", seed);
        cases[seed % 5]();
        free_memory();
    }
    fclose(out);
    return NULL;
}

static int run_threads(int64_t first, int64_t num, int64_t num_threads) {
    work works[16];
    if (num_threads < 1 || num_threads > 16)
        return 2;
    use_helper = num_threads > 1;
    for (int64_t i = 0; i < num_threads; i++) {
        int64_t start = first + num * i / num_threads;
        works[i] = (work){.first = start, .num = first + num * (i + 1) / num_threads - start};
        if (pthread_create(&works[i].thread, NULL, run_seeds, &works[i]))
            return 3;
    }
    for (int64_t i = 0; i < num_threads; i++) {
        pthread_join(works[i].thread, NULL);
        fwrite(works[i].text, 1, works[i].size, stdout);
        free(works[i].text);
    }
    return 0;
}

int main(int num_arguments, char **arguments) {
    if (num_arguments == 2 && strcmp(arguments[1], "variants") == 0) {
        for (int64_t i = 0; elmo_variant(i); i++)
            puts(elmo_variant(i));
        return 0;
    }
    if (num_arguments == 5 && strcmp(arguments[1], "bench") == 0 && choose(arguments[2], arguments[3])) {
        state = 1;
        out = stdout;
        run_bench(atoll(arguments[4]));
        free_memory();
        return 0;
    }
    if (num_arguments < 5 || !choose(arguments[1], arguments[2]))
        return 2;
    return run_threads(atoll(arguments[3]), atoll(arguments[4]), num_arguments > 5 ? atoll(arguments[5]) : 1);
}
