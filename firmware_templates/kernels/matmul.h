/* SPDX-License-Identifier: Apache-2.0 */
/* Products of pairs of matrices: of a network, and those that the passes of a dense layer are.
 *
 *   a      [batch][rows][inner]      each matrix may be stored the other way round: elements are
 *   b      [batch][inner][columns]   `row` and `column` elements apart
 *   bias   [columns]
 *   y      [batch][rows][columns]
 *
 * No buffer may overlap another that is written.
 */
#ifndef POET_MATMUL_H
#define POET_MATMUL_H

#include <stdint.h>

#include "tiles.h"
#include "update.h"

struct poet_matmul {
    int32_t batch;
    int32_t rows;
    int32_t inner;
    int32_t columns;
    int32_t a_row;
    int32_t a_column;
    int32_t b_row;
    int32_t b_column;
    int32_t y_row;
    int32_t y_column;
    int32_t run; /* products that are summed before their sum is added to a total, which limits rounding errors */
    const struct poet_tiles *tiles; /* on cores that run them; else NULL */
};

/* y[n][i][j] = sum over k of a[n][i][k] * b[n][k][j] */
void poet_matmul_f32(const struct poet_matmul *op, const float *a, const float *b, float *y);

/* The same plus bias[j], which may be NULL. */
void poet_matmul_biased_f32(const struct poet_matmul *op, const float *a, const float *b, const float *bias,
                            float *y);

/* The same of further k, whose runs are added to y. Calls for some runs after the other leave the bits of one for all, the last
 * of them with the bias, where products are not fused. */
void poet_matmul_continued_f32(const struct poet_matmul *op, const float *a, const float *b, float *y);
void poet_matmul_biased_continued_f32(const struct poet_matmul *op, const float *a, const float *b,
                                      const float *bias, float *y);

/* Fused product and update of one matrix w: poet_matmul_f32 and poet_update_f32 in one, bit-identical, without storing y. */
void poet_matmul_update_f32(const struct poet_matmul *op, const float *a, const float *b,
                            const struct poet_update *update, const float *pace, float *w, float *first,
                            float *second, float *sum);

#endif
