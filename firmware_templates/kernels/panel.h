/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products, many at a time, where the core has vectors of floats: the inner block that operators share.
 *
 * Results are a matrix. Result [r][l] is the sum over k of factor(r, k) * panel[k][l]: the factors lie where the
 * operator has them, and the panel is gathered, so that the numbers of adjacent lanes are adjacent. A vector has one
 * number of each of several sums, and no sum is split: products are summed by units of some k, and the units' sums
 * are added up, in order, whatever the width of vectors.
 *
 * An operator that puts numbers of its own into a panel, for padding, multiplies them with factors that may be no
 * finite numbers; only then is a result NaN that need not be. */
#ifndef POET_PANEL_H
#define POET_PANEL_H

#include <stdbool.h>
#include <stdint.h>

#include "vectors.h"

enum {
    POET_LANES = 16,
    POET_DEPTH = 256 /* most k in a panel */
};

struct poet_panel {
    int32_t rows;
    int32_t lanes;
    int32_t units;
    int32_t taps;         /* k in a unit */
    const float *factors; /* those of row 0 */
    int32_t row_next;     /* elements to the next row's */
    void *op;             /* told to the functions below */
    /* Writes `count` rows of a panel from k on, whole units or a part of one: those of lanes that there are not must be
     * numbers, too. Their factors lie `places` behind each row's. */
    void (*pack)(const void *op, int32_t lane, int32_t lanes, int32_t k, int32_t count,
                 int32_t *places, float (*panel)[POET_LANES]);
    /* Takes the sums of some rows and lanes; those of two rows are `next` elements apart. */
    void (*put)(void *op, int32_t row, int32_t rows, int32_t lane, int32_t lanes, const float *sums,
                int32_t next);
};

/* A panel whose numbers lie in a matrix: number [k][lane] is numbers[k * k_next + lane * lane_next], and 0 from k = `depth`
 * on, to fill up a last unit. Its factor lies k * factor_next behind the row's first. */
struct poet_panel_matrix {
    const float *numbers;
    int32_t depth;
    int32_t k_next;
    int32_t lane_next;
    int32_t factor_next;
};

/* `pack` where `op` begins with such a matrix. */
void poet_panel_pack_matrix(const void *matrix, int32_t lane, int32_t lanes, int32_t k,
                            int32_t count, int32_t *places, float (*panel)[POET_LANES]);

/* All rows and lanes. Where there are several parts (parts.h), `pack` and `put` are called for different rows or
 * lanes at once. */
void poet_panel_sum_f32(const struct poet_panel *panel);

#endif
