/* SPDX-License-Identifier: Apache-2.0 */
/* The fully connected layer whose weights are packed: see packed.h, and linear.h for the operands. */
#ifndef POET_PACKED_LINEAR_H
#define POET_PACKED_LINEAR_H

#include "linear.h"
#include "packed.h"

typedef void poet_linear_of_slice_f32(const struct poet_linear *op, const float *x, const float *w,
                                      const float *b, float *y);
typedef void poet_linear_input_of_slice_f32(const struct poet_linear *op, const float *w, const float *dy,
                                            float *dx);

struct poet_packed_linear {
    struct poet_packed packed;
    struct poet_linear layer; /* layer of one slice */
    poet_linear_of_slice_f32 *kernel;
};

struct poet_packed_linear_input {
    struct poet_packed packed;
    struct poet_linear layer; /* layer of one slice */
    poet_linear_input_of_slice_f32 *kernel;
};

/* y as with weights in floats; b and scales may be NULL. */
void poet_packed_linear_forward_f32(const struct poet_packed_linear *op, const float *x, const int32_t *words,
                                    const float *b, const float *scales, float *y, void *workspace);

/* dx as with weights in floats; scales may be NULL. */
void poet_packed_linear_backward_input_f32(const struct poet_packed_linear_input *op, const int32_t *words,
                                           const float *dy, const float *scales, float *dx, void *workspace);

#endif
