/* SPDX-License-Identifier: Apache-2.0 */
/* Addition and copying, element by element. y may be the buffer of an input. */
#ifndef POET_ELEMENTWISE_H
#define POET_ELEMENTWISE_H

#include <stdint.h>

struct poet_elementwise {
    int32_t elements;
};

/* y = a + b */
void poet_add_f32(const struct poet_elementwise *op, const float *a, const float *b, float *y);

/* y = x */
void poet_copy_f32(const struct poet_elementwise *op, const float *x, float *y);

#endif
