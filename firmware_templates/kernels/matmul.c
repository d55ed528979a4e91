/* SPDX-License-Identifier: Apache-2.0 */
#include "matmul.h"

#include "dot.h"

/* Products are summed this many at a time and the sums added up: rounding errors stay small. */
enum { RUN = 32 };

void poet_matmul_f32(const struct poet_matmul *op, const float *a, const float *b, float *y)
{
    const struct poet_dot dot = {.outer = {1, 0, 0},
                                 .middle = {1, 0, 0},
                                 .inner = {op->inner, op->a_column, op->b_row}};
    for (int32_t n = 0; n < op->batch; n++) {
        for (int32_t i = 0; i < op->rows; i++) {
            for (int32_t j = 0; j < op->columns; j++) {
                *y++ = poet_dot_f32(&dot, RUN, a + i * op->a_row, b + j * op->b_column);
            }
        }
        a += op->rows * op->inner;
        b += op->inner * op->columns;
    }
}
