/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise selection, conditions, and conversion of integers to floats. Conditions are 1 for true and 0 for false. y may be
 * the buffer of an input. */
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

/* y = x rounded to the nearest whole number, of two the even one */
void poet_nearest_f32(const struct poet_choices *op, const float *x, float *y);

/* state = x */
void poet_store_f32(const struct poet_choices *op, const float *x, float *state);

/* y = x */
void poet_to_float(const struct poet_choices *op, const int32_t *x, float *y);

/* y = x rounded towards 0, limited to 2^30; 0 for NaN. */
void poet_to_integer(const struct poet_choices *op, const float *x, int32_t *y);

#endif
