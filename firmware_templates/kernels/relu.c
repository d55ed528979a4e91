/* SPDX-License-Identifier: Apache-2.0 */
#include "relu.h"

#include "vectors.h"

void poet_relu_forward_f32(const struct poet_relu *op, const float *x, float *y)
{
    int32_t i = 0;
#if POET_HAS_VECTORS
    for (; i + 4 <= op->elements; i += 4) {
        const poet_floats v = poet_load(x + i);
        poet_store(y + i, poet_where(v > poet_four(0.0f), v));
    }
#endif
    for (; i < op->elements; i++) {
        y[i] = x[i] > 0.0f ? x[i] : 0.0f;
    }
}

void poet_relu_backward_f32(const struct poet_relu *op, const float *y, const float *dy, float *dx)
{
    int32_t i = 0;
#if POET_HAS_VECTORS
    for (; i + 4 <= op->elements; i += 4) {
        poet_store(dx + i, poet_where(poet_load(y + i) > poet_four(0.0f), poet_load(dy + i)));
    }
#endif
    for (; i < op->elements; i++) {
        dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
    }
}

void poet_relu6_forward_f32(const struct poet_relu *op, const float *x, float *y)
{
    int32_t i = 0;
#if POET_HAS_VECTORS
    for (; i + 4 <= op->elements; i += 4) {
        const poet_floats v = poet_load(x + i);
        const poet_floats floored = poet_where(v > poet_four(0.0f), v);
        const poet_mask less = floored < poet_four(6.0f);
        poet_store(y + i, poet_where(less, floored) + poet_where(~less, poet_four(6.0f)));
    }
#endif
    for (; i < op->elements; i++) {
        const float floored = x[i] > 0.0f ? x[i] : 0.0f;
        y[i] = floored < 6.0f ? floored : 6.0f;
    }
}

void poet_relu6_backward_f32(const struct poet_relu *op, const float *y, const float *dy, float *dx)
{
    int32_t i = 0;
#if POET_HAS_VECTORS
    for (; i + 4 <= op->elements; i += 4) {
        const poet_floats v = poet_load(y + i);
        const poet_mask between = (v > poet_four(0.0f)) & (v < poet_four(6.0f));
        poet_store(dx + i, poet_where(between, poet_load(dy + i)));
    }
#endif
    for (; i < op->elements; i++) {
        dx[i] = y[i] > 0.0f && y[i] < 6.0f ? dy[i] : 0.0f;
    }
}
