/* SPDX-License-Identifier: Apache-2.0 */
/* The fully connected layer whose weights are packed: see packed.h, and linear.h for the operands. */
#ifndef POET_PACKED_LINEAR_H
#define POET_PACKED_LINEAR_H

#include "matmul.h"
#include "packed.h"

struct poet_packed_linear {
    struct poet_packed packed;
    struct poet_matmul layer; /* of a slice */
};

/* y as with weights in floats; b and scales may be NULL. */
void poet_packed_linear_forward_f32(const struct poet_packed_linear *op, const float *x, const int32_t *words,
                                    const float *b, const float *scales, float *y, void *workspace);

/* dx as with weights in floats; scales may be NULL. */
void poet_packed_linear_backward_input_f32(const struct poet_packed_linear *op, const int32_t *words,
                                           const float *dy, const float *scales, float *dx, void *workspace);

#endif
