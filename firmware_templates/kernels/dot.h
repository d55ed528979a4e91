/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products, one result at a time: what kernels use where the core has no floating-point unit, and where
 * results share nothing. */
#ifndef POET_DOT_H
#define POET_DOT_H

#include <stdint.h>

#include "fpu.h"

/* Number of factors, and the distance between those of a and of b. */
struct poet_dot_axis {
    int32_t count;
    int32_t a_next;
    int32_t b_next;
};

/* Factors in three nested loops. */
struct poet_dot {
    struct poet_dot_axis outer;
    struct poet_dot_axis middle;
    struct poet_dot_axis inner;
};

/* The sum of a * b over the three axes. dot.c rounds each product, the sums of `unit` products and their sum, as all
 * kernels do; dot_fused.c, for boards whose file says that they need not be exact, rounds only the result. */
float poet_dot_f32(const struct poet_dot *dot, int32_t unit, const float *a, const float *b);

#endif
