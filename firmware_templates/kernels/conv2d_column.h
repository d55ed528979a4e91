/* SPDX-License-Identifier: Apache-2.0 */
/* What 3x3 kernels have in common that go through planes, whole or with zeros around them. */
#ifndef POET_CONV2D_COLUMN_H
#define POET_CONV2D_COLUMN_H

#include <stdbool.h>
#include <stdint.h>

#include "product.h"

/* A column of the source under the kernel at two rows of results, the second below the first. */
struct poet_column {
    float a, b, c, d;
};

/* The nine products at a position, from left, middle and right of three rows. */
static inline __attribute__((always_inline)) float poet_sum_9(const float w[9], float l0, float m0,
                                                              float r0, float l1, float m1,
                                                              float r1, float l2, float m2,
                                                              float r2)
{
    float sum = w[0] * l0;
    sum = poet_add_product(sum, w[1], m0);
    sum = poet_add_product(sum, w[2], r0);
    sum = poet_add_product(sum, w[3], l1);
    sum = poet_add_product(sum, w[4], m1);
    sum = poet_add_product(sum, w[5], r1);
    sum = poet_add_product(sum, w[6], l2);
    sum = poet_add_product(sum, w[7], m2);
    sum = poet_add_product(sum, w[8], r2);
    return sum;
}

/* Whether a sum of factors says that none makes NaN of a zero; some that are so large that it overflows are taken for such. */
static inline bool poet_is_finite(float sum)
{
    return 0.0f * sum == 0.0f;
}

static inline bool poet_are_finite(const float *factors, int32_t count)
{
    float sum = 0.0f;
    for (int32_t i = 0; i < count; i++) {
        sum += factors[i];
    }
    return poet_is_finite(sum);
}

/* The same of 3x3 kernels. */
static inline bool poet_kernels_are_finite(const float *weight, int32_t count)
{
    float sum = 0.0f;
    for (int32_t i = 0; i < count; i++) {
        const float *w = weight + 9 * i;
        sum += w[0] + w[1] + w[2] + (w[3] + w[4] + w[5]) + (w[6] + w[7] + w[8]);
    }
    return poet_is_finite(sum);
}

#endif
