/* SPDX-License-Identifier: Apache-2.0 */
#include "slice.h"

void poet_slice_f32(const struct poet_slice *op, const float *x, float *y)
{
    const int32_t row = op->extent * op->inner;
    const int32_t taken = op->length * op->inner;
    for (int32_t o = 0; o < op->outer; o++) {
        const float *from = x + o * row + op->start * op->inner;
        for (int32_t i = 0; i < taken; i++) {
            *y++ = from[i];
        }
    }
}

void poet_slice_backward_f32(const struct poet_slice *op, const float *dy, float *dx)
{
    const int32_t before = op->start * op->inner;
    const int32_t taken = op->length * op->inner;
    const int32_t behind = op->extent * op->inner - before - taken;
    for (int32_t o = 0; o < op->outer; o++) {
        for (int32_t i = 0; i < before; i++) {
            *dx++ = 0.0f;
        }
        for (int32_t i = 0; i < taken; i++) {
            *dx++ = *dy++;
        }
        for (int32_t i = 0; i < behind; i++) {
            *dx++ = 0.0f;
        }
    }
}

void poet_concat_f32(const struct poet_concat *op, const float *a, const float *b, float *y)
{
    for (int32_t o = 0; o < op->outer; o++) {
        for (int32_t i = 0; i < op->a_row; i++) {
            *y++ = *a++;
        }
        for (int32_t i = 0; i < op->b_row; i++) {
            *y++ = *b++;
        }
    }
}
