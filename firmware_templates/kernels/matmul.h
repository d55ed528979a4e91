/* SPDX-License-Identifier: Apache-2.0 */
/* Products of batches of matrices.
 *
 *   a   [batch][rows][inner]      each may be stored the other way round: elements of a matrix are
 *   b   [batch][inner][columns]   `row` and `column` elements apart
 *   y   [batch][rows][columns]
 */
#ifndef POET_MATMUL_H
#define POET_MATMUL_H

#include <stdint.h>

struct poet_matmul {
    int32_t batch;
    int32_t rows;
    int32_t inner;
    int32_t columns;
    int32_t a_row;
    int32_t a_column;
    int32_t b_row;
    int32_t b_column;
};

/* y[n][i][j] = sum over k of a[n][i][k] * b[n][k][j] */
void poet_matmul_f32(const struct poet_matmul *op, const float *a, const float *b, float *y);

#endif
