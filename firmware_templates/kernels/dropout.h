/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout, both ways, uniform noise, and the number of the step that they draw by.
 *
 * A place draws a number below 2^24 by its step, its op and its position alone.
 */
#ifndef POET_DROPOUT_H
#define POET_DROPOUT_H

#include <stdint.h>

struct poet_dropout {
    int32_t elements;
    int32_t run;       /* elements that draw one number */
    int32_t seed;      /* of the op */
    int32_t threshold; /* what those that stay draw at least */
    float factor;      /* of those that stay */
};

struct poet_uniform {
    int32_t elements;
    int32_t seed; /* of the op */
};

struct poet_count_step {
    int32_t last; /* the largest number of a step */
};

/* y = x * factor or 0; y may be the buffer of x. The step is [1]. */
void poet_dropout_f32(const struct poet_dropout *op, const float *x, const float *step, float *y);

/* y in [0, 1), a multiple of 2^-24. The step is [1]. */
void poet_uniform_f32(const struct poet_uniform *op, const float *step, float *y);

/* step += 1, and 0 after the last */
void poet_count_step_f32(const struct poet_count_step *op, float *step);

#endif
