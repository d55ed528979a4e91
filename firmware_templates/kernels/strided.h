/* SPDX-License-Identifier: Apache-2.0 */
/* Strided copies, and element-wise ops with broadcasting.
 *
 * A strided view has at position (i0, ..., i5) of the extents the element offset + i0 * step0 + ... + i5 * step5 of
 * a tensor. Steps may be 0 (a repeated element) or negative (a reversed axis). The other tensor is contiguous.
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
    int32_t elements; /* elements of the strided tensor */
};

/* y is a strided view of x */
void poet_strided_take_f32(const struct poet_strided *op, const float *x, float *y);

/* A strided view of y is x; elements of y with several sources are their sum, those without are 0 */
void poet_strided_put_f32(const struct poet_strided *op, const float *x, float *y);

/* y = a + strided b; y may be the buffer of a */
void poet_strided_add_f32(const struct poet_strided *op, const float *a, const float *b, float *y);

/* y = a * strided b; y may be the buffer of a, or of b if it has as many elements */
void poet_strided_multiply_f32(const struct poet_strided *op, const float *a, const float *b, float *y);

#endif
