/* SPDX-License-Identifier: Apache-2.0 */
#include "choices.h"

void poet_where_f32(const struct poet_choices *op, const float *c, const float *a, const float *b, float *y)
{
    for (int32_t i = 0; i < op->elements; i++) {
        y[i] = c[i] != 0.0f ? a[i] : b[i];
    }
}

void poet_mask_f32(const struct poet_choices *op, const float *c, const float *x, float *y)
{
    for (int32_t i = 0; i < op->elements; i++) {
        y[i] = c[i] != 0.0f ? x[i] : 0.0f;
    }
}

void poet_mask_out_f32(const struct poet_choices *op, const float *c, const float *x, float *y)
{
    for (int32_t i = 0; i < op->elements; i++) {
        y[i] = c[i] != 0.0f ? 0.0f : x[i];
    }
}

void poet_positive_f32(const struct poet_choices *op, const float *x, float *y)
{
    for (int32_t i = 0; i < op->elements; i++) {
        y[i] = x[i] > 0.0f ? 1.0f : 0.0f;
    }
}

void poet_zero_f32(const struct poet_choices *op, const float *x, float *y)
{
    for (int32_t i = 0; i < op->elements; i++) {
        y[i] = x[i] == 0.0f ? 1.0f : 0.0f;
    }
}

/* From 2^23 on, floats have no fraction. Below, the sum with it has none, and is rounded to the even one of two. */
static const float WHOLE = 0x1p+23f;

void poet_nearest_f32(const struct poet_choices *op, const float *x, float *y)
{
    for (int32_t i = 0; i < op->elements; i++) {
        const float v = x[i];
        const float size = v < 0.0f ? -v : v;
        const float near = size < WHOLE ? (size + WHOLE) - WHOLE : size;
        y[i] = v < 0.0f ? -near : near;
    }
}

void poet_store_f32(const struct poet_choices *op, const float *x, float *state)
{
    for (int32_t i = 0; i < op->elements; i++) {
        state[i] = x[i];
    }
}

/* The limits of integers come first: C leaves open what a conversion beyond them gives. */
static const float LIMIT = 0x1p+30f;

void poet_to_float(const struct poet_choices *op, const int32_t *x, float *y)
{
    for (int32_t i = 0; i < op->elements; i++) {
        y[i] = (float)x[i];
    }
}

void poet_to_integer(const struct poet_choices *op, const float *x, int32_t *y)
{
    for (int32_t i = 0; i < op->elements; i++) {
        const float v = x[i];
        const float above = v > -LIMIT ? v : -LIMIT;
        const float known = above < LIMIT ? above : LIMIT;
        y[i] = v == v ? (int32_t)known : 0;
    }
}
