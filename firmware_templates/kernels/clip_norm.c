/* SPDX-License-Identifier: Apache-2.0 */
#include "clip_norm.h"

#include <stddef.h>

#include "poet_math.h"

enum { ROW = 32, LEVELS = 27 };

static float squares_of(const float *row, int32_t length)
{
    float sum = 0.0f;
    for (int32_t i = 0; i < length; i++) {
        sum += row[i] * row[i];
    }
    return sum;
}

/* Rows are added pairwise, so that rounding errors grow with the logarithm of their number:
 * partial[k] is the sum of 2^k rows where bit k of that number is set. */
void poet_square_sum_f32(const struct poet_square_sum *op, const float *gradient,
                         const float *before, float *sum)
{
    float partial[LEVELS];
    int32_t rows = 0;
    for (int32_t first = 0; first < op->elements; first += ROW) {
        const int32_t left = op->elements - first;
        float row = squares_of(gradient + first, left < ROW ? left : ROW);
        int32_t level = 0;
        while (rows >> level & 1) {
            row += partial[level++];
        }
        partial[level] = row;
        rows++;
    }
    float total = before != NULL ? *before : 0.0f;
    for (int32_t level = 0; rows >> level; level++) {
        if (rows >> level & 1) {
            total += partial[level];
        }
    }
    *sum = total;
}

void poet_clip_factor_f32(const struct poet_clip_factor *op, const float *sum, float *factor)
{
    const float ratio = op->max_norm / (poet_sqrtf(*sum) + 1e-6f);
    *factor = ratio > 1.0f ? 1.0f : ratio;
}
