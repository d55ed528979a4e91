/* SPDX-License-Identifier: Apache-2.0 */
/* Elements put elsewhere, and tensors stretched to each other.
 *
 * All elements of one tensor are walked in order, those of the other by steps: at position
 * (i0, ..., i5) of the extents it is the element offset + i0 * step0 + ... + i5 * step5. Steps may be 0
 * (an element seen often) or below (an axis run backwards).
 */
#ifndef POET_STRIDED_H
#define POET_STRIDED_H

#include <stdint.h>

struct poet_strided {
    int32_t extent0;
    int32_t extent1;
    int32_t extent2;
    int32_t extent3;
    int32_t extent4;
    int32_t extent5;
    int32_t step0;
    int32_t step1;
    int32_t step2;
    int32_t step3;
    int32_t step4;
    int32_t step5;
    int32_t offset;
    int32_t elements; /* of the tensor that is seen by steps */
};

/* y, in order, is x by steps */
void poet_strided_take_f32(const struct poet_strided *op, const float *x, float *y);

/* y by steps is x, in order; what several go to is their sum, and the rest is 0 */
void poet_strided_put_f32(const struct poet_strided *op, const float *x, float *y);

/* y = a + b, b by steps; y may be the buffer of a */
void poet_strided_add_f32(const struct poet_strided *op, const float *a, const float *b, float *y);

/* y = a * b, b by steps; y may be the buffer of a, or of b where that has as many elements */
void poet_strided_multiply_f32(const struct poet_strided *op, const float *a, const float *b, float *y);

#endif
