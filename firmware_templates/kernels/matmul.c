/* SPDX-License-Identifier: Apache-2.0 */
#include "matmul.h"

/* Products are summed this many at a time and the sums added up: rounding errors stay small. */
enum { RUN = 32 };

static float dot(const float *a, int32_t a_step, const float *b, int32_t b_step, int32_t count)
{
    float total = 0.0f;
    while (count > 0) {
        const int32_t run = count < RUN ? count : RUN;
        float sum = 0.0f;
        for (int32_t k = 0; k < run; k++) {
            sum += *a * *b;
            a += a_step;
            b += b_step;
        }
        total += sum;
        count -= run;
    }
    return total;
}

void poet_matmul_f32(const struct poet_matmul *op, const float *a, const float *b, float *y)
{
    for (int32_t n = 0; n < op->batch; n++) {
        for (int32_t i = 0; i < op->rows; i++) {
            for (int32_t j = 0; j < op->columns; j++) {
                *y++ = dot(a + i * op->a_row, op->a_column, b + j * op->b_column, op->b_row,
                           op->inner);
            }
        }
        a += op->rows * op->inner;
        b += op->inner * op->columns;
    }
}
