/* SPDX-License-Identifier: Apache-2.0 */
#include "linear_small.h"

#include <stddef.h>

#include "fpu.h"
#include "vectors.h"

/* One product at a time: for so few, blocks save less than they cost to set up. */

enum {
    MOST_PRODUCTS = 32,                               /* as in linear.py; so many are summed in a single group */
    ONE_BY_ONE = POET_HAS_FPU && !POET_HAS_VECTORS, /* otherwise sums are computed as in linear.c */
};

#define INLINE static inline __attribute__((always_inline))

/* results[row][column] = sum over k < count of factors[row * factor_row + k * factor_next] * numbers[column * number_row +
 * k * number_next] */
INLINE void sum_each(int32_t rows, int32_t columns, int32_t count, const float *factors,
                     int32_t factor_row, int32_t factor_next, const float *numbers,
                     int32_t number_row, int32_t number_next, const float *bias, float *results)
{
    do {
        const float *column = numbers;
        const float *shift = bias;
        int32_t left = columns;
        do {
            const float *a = factors;
            const float *b = column;
            float sum = 0.0f;
            int32_t k = count;
            do {
                sum += *a * *b;
                a += factor_next;
                b += number_next;
            } while (--k != 0);
            *results++ = shift != NULL ? sum + *shift++ : sum;
            column += number_row;
        } while (--left != 0);
        factors += factor_row;
    } while (--rows != 0);
}

void poet_linear_small_forward_f32(const struct poet_linear *op, const float *x, const float *w,
                                   const float *b, float *y)
{
    if (!ONE_BY_ONE) {
        poet_linear_forward_f32(op, x, w, b, y);
        return;
    }
    const int32_t features = op->in_features;
    sum_each(op->batch, op->out_features, features, x, features, 1, w, features, 1, b, y);
}

void poet_linear_small_backward_input_f32(const struct poet_linear *op, const float *w,
                                          const float *dy, float *dx)
{
    if (!ONE_BY_ONE) {
        poet_linear_backward_input_f32(op, w, dy, dx);
        return;
    }
    const int32_t outputs = op->out_features;
    sum_each(op->batch, op->in_features, outputs, dy, outputs, 1, w, 1, op->in_features, NULL, dx);
}

void poet_linear_small_backward_weight_f32(const struct poet_linear *op, const float *x,
                                           const float *dy, float *dw)
{
    if (!ONE_BY_ONE) {
        poet_linear_backward_weight_f32(op, x, dy, dw);
        return;
    }
    const int32_t outputs = op->out_features;
    const int32_t features = op->in_features;
    sum_each(outputs, features, op->batch, dy, 1, outputs, x, 1, features, NULL, dw);
}

void poet_linear_small_backward_weight_update_f32(const struct poet_linear *op, const float *x,
                                                  const float *dy, const struct poet_update *update,
                                                  const float *pace, float *w, float *first,
                                                  float *second, float *sum)
{
    if (!ONE_BY_ONE) {
        poet_linear_backward_weight_update_f32(op, x, dy, update, pace, w, first, second, sum);
        return;
    }
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
    const int32_t outputs = op->out_features;
    const int32_t features = op->in_features;
    float gradient[MOST_PRODUCTS];
    sum_each(outputs, features, op->batch, dy, 1, outputs, x, 1, features, NULL, gradient);
    poet_gradient_sink_put_run_f32(&sink, 0, outputs * features, gradient);
}
