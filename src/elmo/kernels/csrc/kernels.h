/* What the compiled library offers to Python (src/elmo/kernels/library.py declares the same).
 *
 * Nothing here allocates or touches Python: callers bring every buffer, so the functions may run in any number of
 * threads at once. Each is compiled once per instruction set; library.c chooses. helper.c has the only thread.
 */
#ifndef ELMO_KERNELS_H
#define ELMO_KERNELS_H

#include <stdint.h>

/* Changes with every signature and structure below; Python refuses a library built from other sources. */
#define ELMO_ABI 6

/* A weight matrix (num_outputs x num_inputs) in panels of elmo_panel() outputs: for each panel, for each input (8 bits:
 * for each four inputs), the weights of its outputs side by side. Weights of 8 bits lie between -127 and 127. Outputs
 * come in num_groups groups (the four gates of an LSTM) of num_outputs each; each group starts a panel of its own, and
 * the last panel of a group is filled with zeros.
 */
typedef struct {
    int64_t num_inputs;
    int64_t num_outputs; /* in one group */
    int64_t num_groups;
    const float *float32;   /* NULL in 8 bits */
    const uint16_t *float16; /* the same values where all of them are exact in 16 bits, else NULL */
    const int8_t *int8;     /* NULL in float32 */
    const float *scales;    /* of int8: one per output, panels filled up */
    const int32_t *sums;    /* of int8: the sum of each output's weights, times 128 */
} elmo_matrix;

typedef struct {
    elmo_matrix from_inputs; /* 4 groups of cell_dim outputs: input, forget, candidate and output gate */
    elmo_matrix from_state;  /* likewise */
    elmo_matrix projection;  /* num_inputs is 0 without a projection */
    const float *bias;       /* of the gates, (4 * cell_dim,) */
    float cell_clip;         /* infinity for none */
    float projection_clip;
} elmo_lstm;

/* Packed rows, step by step and without padding: the first word of every sentence, then the second, and so on. */
typedef struct {
    int64_t num_steps;
    const int64_t *counts;  /* rows of each step, never rising */
    int64_t num_rows;       /* of all steps together */
    const float *words;     /* (num_words, dim): vectors of the distinct words */
    int64_t num_words;
    const int64_t *sources; /* (num_rows,): the word of each row */
    const int64_t *targets; /* (num_rows,): the row of the result it goes to */
    int64_t num_state_rows; /* at least counts[0] */
    int64_t has_state;      /* whether hidden and cell hold a state on entry; zero is read if not */
    float *hidden;          /* (num_layers, num_state_rows, dim): the state on return; NULL if nobody wants it */
    float *cell;            /* (num_layers, num_state_rows, cell_dim): likewise */
    int64_t num_vectors;    /* that the result has for each word */
    const float *weights;   /* (num_vectors, num_layers + 1): of the words and of each layer in each of them */
    float *result;          /* row r, vector v at result + (r * num_vectors + v) * result_stride */
    int64_t result_stride;
} elmo_window;

typedef struct { /* one direction of a language model and what it runs over */
    const elmo_lstm *layers;
    int64_t num_layers;
    int64_t residual;
    elmo_window window;
} elmo_direction;

typedef struct {
    int64_t num_features;     /* of all filters together */
    int64_t num_filters;
    int64_t num_characters;   /* ids per word */
    const int64_t *widths;    /* of each filter */
    const int64_t *channels;  /* of each filter */
    const float *table;       /* (alphabet, row_size): of each character, for each filter, for each place in it */
    int64_t row_size;
    const float *bias;        /* (num_features,) */
} elmo_char_table;

#define ELMO_MAX_HIGHWAYS 4

typedef struct { /* of distinct words: characters -> features -> highways -> vector */
    elmo_char_table table;
    int64_t alphabet_size;
    int64_t activation;       /* 0: relu, 1: tanh */
    int64_t num_highways;
    elmo_matrix highways[ELMO_MAX_HIGHWAYS]; /* transform and gate one after the other */
    const float *highway_biases[ELMO_MAX_HIGHWAYS];
    elmo_matrix projection;   /* num_inputs is 0 without one */
    const float *projection_bias;
} elmo_word_encoder;

typedef struct { /* what meanings are made of, see meaning.inc */
    int64_t dim;                 /* of static vectors */
    int64_t top_dim;             /* of the top layer: both directions */
    int64_t state_dim;           /* of a softmax row: half of top_dim, or all of it if each direction has its own */
    int64_t num_candidates;      /* words that could stand in place of one */
    int64_t window;              /* tokens on each side */
    const int8_t *vectors;       /* (words, dim): static vectors of all that may be candidates, with */
    const float *scales;         /* (words,) */
    const int8_t *softmax;       /* (words, state_dim): rows of the softmax, without their scales */
    float focus, decay, shrinkage;
    float topic, cutoff, substitute_shrinkage;
    float top_share, context_share, substitute_share, word_share; /* square roots */
} elmo_meaning;

typedef struct {
    const float *top;            /* (positions, top_dim): sentence by sentence, boundaries included */
    const int64_t *tokens;       /* (positions,): which distinct token it is; not read at boundaries */
    const int8_t *token_vectors; /* (distinct tokens, dim), with */
    const float *token_scales;
    const float *token_weights;
    int64_t num_spans;
    const int64_t *spans;        /* (num_spans, 7): the first position of the sentence and the one behind its last,
                                    the same of the word, its distinct token, its list of candidates (-1: none), the
                                    address of its meaning, (top_dim + dim,); best ordered by lists */
    int64_t longest;             /* the most positions that are near a word, its own included */
    const uint16_t *candidates;  /* (lists, num_candidates): words, whose score is the product of their softmax row */
    const float *factors;        /* with the state, times these, */
    const float *offsets;        /* plus these */
    const float *priors;         /* (lists, dim): what the substitutes are without a sentence */
} elmo_meaning_batch;

/* Run a task on two arguments, the second in the helper thread unless `single_threaded`; see helper.c. */
typedef void (*elmo_task)(void *);
void elmo_run_both(elmo_task task, void *first, void *second, int64_t single_threaded);
int64_t elmo_has_helper(void);
void elmo_wake_helper(void); /* it is about to get a task */

/* What the library was compiled from: the first 16 digits of a SHA-256 over the sources, see hatch_build.py. */
const char *elmo_source_hash(void);
int64_t elmo_abi(void);
/* The variants that this processor runs, the fastest first; NULL after the last. */
const char *elmo_variant(int64_t number);

/* The same signatures for every instruction set. */
#define ELMO_DECLARE(SUFFIX)                                                                                           \
    int64_t elmo_panel_##SUFFIX(void);                                                                                 \
    int64_t elmo_input_levels_##SUFFIX(void);                                                                          \
    int64_t elmo_multiply_scratch_##SUFFIX(const elmo_matrix *matrix, int64_t num_rows);                               \
    void elmo_multiply_##SUFFIX(const elmo_matrix *matrix, const float *bias, const float *inputs, int64_t num_rows,   \
                                float *outputs, void *scratch);                                                        \
    int64_t elmo_forward_##SUFFIX(const elmo_direction *directions, int64_t num_directions, int64_t single_threaded,   \
                                  void *scratch, int64_t scratch_bytes);                                               \
    int64_t elmo_encode_##SUFFIX(const elmo_word_encoder *encoder, const int64_t *char_ids, int64_t num_words,         \
                                 int64_t single_threaded, float *vectors, void *scratch, int64_t scratch_bytes);       \
    int64_t elmo_meanings_##SUFFIX(const elmo_meaning *model, const elmo_meaning_batch *batch,                         \
                                   int64_t single_threaded, void *scratch, int64_t scratch_bytes);                     \
    void elmo_nearest_##SUFFIX(const int8_t *vectors, const float *scales, int64_t num_rows, int64_t dim,              \
                               const int8_t *queries, const float *query_scales, int64_t num_queries,                  \
                               int64_t num_nearest, float *cosines, int32_t *nearest, float *nearest_cosines);         \
    void elmo_convolve_##SUFFIX(const elmo_char_table *table, const int64_t *char_ids, const int64_t *num_starts,      \
                                int64_t num_words, float *features, float *starts);                                    \
    void elmo_convolve_back_##SUFFIX(const elmo_char_table *table, const int64_t *char_ids, int64_t num_words,         \
                                     const float *starts, const float *grad_features, float *grad_table);              \
    void elmo_train_forward_##SUFFIX(int64_t num_rows, int64_t cell_dim, int64_t narrow, const void *from_inputs,      \
                                     const void *from_state, const float *bias, const float *previous,                 \
                                     const float *keep, float cell_clip, float *gates, float *cell, float *tanh_cells, \
                                     void *hidden);                                                                    \
    void elmo_train_backward_##SUFFIX(int64_t num_rows, int64_t cell_dim, int64_t narrow, const float *gates,          \
                                      const float *previous, const float *keep, const float *cell,                     \
                                      const float *tanh_cells, const void *grad_hidden, float cell_clip,               \
                                      float *grad_cell, void *grad_gates, float *grad_bias);

#if defined(ELMO_X86)
ELMO_DECLARE(avx512vnni)
ELMO_DECLARE(avx512)
ELMO_DECLARE(avx2)
#elif defined(ELMO_ARM)
ELMO_DECLARE(neoni8mm)
ELMO_DECLARE(neondot)
ELMO_DECLARE(neon)
#endif
ELMO_DECLARE(portable)

#endif
