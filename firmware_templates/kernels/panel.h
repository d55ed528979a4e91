/* SPDX-License-Identifier: Apache-2.0 */
/* Many sums of products at a time, for cores with vectors of floats: the inner loop shared by operators.
 *
 * Results are a matrix. Result [r][l] is the sum over k of factor(r, k) * panel[k][l]: the factors lie where the
 * operator has them, and the panel is gathered, so that the numbers of adjacent lanes are adjacent. A vector has one
 * number of each of several sums, and no sum is split: products are summed by units of some k, and the units' sums
 * are added up, in order, whatever the width of vectors.
 *
 * The panel may contain padding, which is multiplied with factors, too: if these are not finite, a result may be
 * NaN although the padding should not count. */
#ifndef POET_PANEL_H
#define POET_PANEL_H

#include <stdbool.h>
#include <stdint.h>

#include "vectors.h"

enum {
    POET_LANES = 16,
    POET_DEPTH = 256 /* maximum number of k per panel */
};

struct poet_panel {
    int32_t rows;
    int32_t lanes;
    int32_t units;
    int32_t taps;         /* number of k per unit; units of one are one sum */
    const float *factors; /* factors of row 0 */
    int32_t row_next;     /* distance to the factors of the next row */
    void *op;             /* argument of the functions below */
    /* Writes `count` rows of a panel from k on: whole units, or a part of one. Unused lanes must be finite numbers, too.
     * `places` are the offsets of their factors from each row's first. */
    void (*pack)(const void *op, int32_t lane, int32_t lanes, int32_t k, int32_t count,
                 int32_t *places, float (*panel)[POET_LANES]);
    /* Writes what the sums of some rows and lanes begin with, as `put` takes them; NULL for 0. */
    void (*begin)(const void *op, int32_t row, int32_t rows, int32_t lane, int32_t lanes, float *sums, int32_t next);
    /* Takes the sums of some rows and lanes; those of two rows are `next` elements apart. */
    void (*put)(void *op, int32_t row, int32_t rows, int32_t lane, int32_t lanes, const float *sums,
                int32_t next);
};

/* Panel from a matrix: number [k][lane] is numbers[k * k_next + lane * lane_next], or 0 from k = `depth` on to complete the
 * last unit. Its factor is k * factor_next elements after the row's first. */
struct poet_panel_matrix {
    const float *numbers;
    int32_t depth;
    int32_t k_next;
    int32_t lane_next;
    int32_t factor_next;
};

/* `pack` for an `op` that begins with a struct poet_panel_matrix. */
void poet_panel_pack_matrix(const void *matrix, int32_t lane, int32_t lanes, int32_t k,
                            int32_t count, int32_t *places, float (*panel)[POET_LANES]);

/* Computes all rows and lanes. If there are several parts (parts.h), `pack` and `put` are called for different rows or
 * lanes at once. */
void poet_panel_sum_f32(const struct poet_panel *panel);

#endif
