/* SPDX-License-Identifier: Apache-2.0 */
/* Choices between numbers, the signs that they go by, and integers as floats, element by element. What is true is 1, what is
 * not is 0. y may be the buffer of an input. */
#ifndef POET_CHOICES_H
#define POET_CHOICES_H

#include <stdint.h>

struct poet_choices {
    int32_t elements;
};

/* y = c ? a : b */
void poet_where_f32(const struct poet_choices *op, const float *c, const float *a, const float *b, float *y);

/* y = c ? x : 0 */
void poet_mask_f32(const struct poet_choices *op, const float *c, const float *x, float *y);

/* y = c ? 0 : x */
void poet_mask_out_f32(const struct poet_choices *op, const float *c, const float *x, float *y);

/* y = x > 0 */
void poet_positive_f32(const struct poet_choices *op, const float *x, float *y);

/* y = x == 0 */
void poet_zero_f32(const struct poet_choices *op, const float *x, float *y);

/* y = x */
void poet_to_float(const struct poet_choices *op, const int32_t *x, float *y);

/* y = x without its fraction; NaN is 0, and what is beyond 2^30 is that. */
void poet_to_integer(const struct poet_choices *op, const float *x, int32_t *y);

#endif
