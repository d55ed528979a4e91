/* SPDX-License-Identifier: Apache-2.0 */
#include "elementwise.h"

void poet_add_f32(const struct poet_elementwise *op, const float *a, const float *b, float *y)
{
    for (int32_t i = 0; i < op->elements; i++) {
        y[i] = a[i] + b[i];
    }
}

void poet_copy_f32(const struct poet_elementwise *op, const float *x, float *y)
{
    for (int32_t i = 0; i < op->elements; i++) {
        y[i] = x[i];
    }
}
