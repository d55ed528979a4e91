/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout and its gradient, uniform noise, and the step counter that seeds them.
 *
 * A random number is below 2^24, and depends only on the step, the op and the position.
 */
#ifndef POET_DROPOUT_H
#define POET_DROPOUT_H

#include <stdint.h>

struct poet_dropout {
    int32_t elements;
    int32_t run;       /* elements that share a random number */
    int32_t seed;      /* seed of the op */
    int32_t threshold; /* smallest random number of elements that are kept */
    float factor;      /* factor of kept elements */
};

struct poet_uniform {
    int32_t elements;
    int32_t seed; /* seed of the op */
};

struct poet_count_step {
    int32_t last; /* largest step number */
};

/* y = x * factor, or 0; y may be the buffer of x. The step has one element. */
void poet_dropout_f32(const struct poet_dropout *op, const float *x, const float *step, float *y);

/* y is uniform in [0, 1), in multiples of 2^-24. The step has one element. */
void poet_uniform_f32(const struct poet_uniform *op, const float *step, float *y);

/* step += 1; 0 after the largest step number */
void poet_count_step_f32(const struct poet_count_step *op, float *step);

#endif
