/* SPDX-License-Identifier: Apache-2.0 */
#include "elementwise.h"

#include "vectors.h"

void poet_add_f32(const struct poet_elementwise *op, const float *a, const float *b, float *y)
{
    int32_t i = 0;
#if POET_HAS_VECTORS
    for (; i + 4 <= op->elements; i += 4) {
        poet_store(y + i, poet_load(a + i) + poet_load(b + i));
    }
#endif
    for (; i < op->elements; i++) {
        y[i] = a[i] + b[i];
    }
}

void poet_copy_f32(const struct poet_elementwise *op, const float *x, float *y)
{
    for (int32_t i = 0; i < op->elements; i++) {
        y[i] = x[i];
    }
}
