/* SPDX-License-Identifier: Apache-2.0 */
/* The inner blocks of 3x3 convolutions with stride 2. */
#ifndef POET_CONV2D_STRIP_BY_2_H
#define POET_CONV2D_STRIP_BY_2_H

#include <stdint.h>

#include "conv2d_strip.h"

/* As poet_conv2d_strips_f32, but that the columns of the source that the four results' kernels begin with are two apart: the
 * strip meets nine, of which the first or the last may be padding. */
poet_sum_strips_f32 poet_conv2d_strips_by_2_f32;

/* For dX, a strip is two rows of eight columns: what a row of dy went into, of which it shares the lower one with the row
 * behind it. Even columns have met the middle column of the kernel, under one of dy; odd ones its last under that, and its
 * first under the next, which at the right edge is padding. So it is with rows: even ones have met the middle row.
 * The bits are the Cortex-M's flags N, Z, C (POET_RIGHT_EDGE) and V. */
#define POET_SEVEN_COLUMNS 0x80000000u /* to be stored */
#define POET_LAST_ROW 0x40000000u      /* of dy */
#define POET_UPPER_ROW 0x10000000u     /* is all to be stored */

/* In this order in assembly. What is next counts elements. */
struct poet_wide_strip {
    int32_t row_next;     /* of dy */
    int32_t channel_next; /* of dy */
    int32_t weight_next;  /* from a channel's weights to the next one's */
    int32_t channels;     /* of dy */
    uint32_t edges;
    int32_t result_next; /* row of dx */
};

/* `dy` is the first column and the upper row that the strip has met. */
void poet_conv2d_wide_strip_f32(const struct poet_wide_strip *strip, const float *dy,
                                const float *weight, float *dx);

/* Sums for dW go through every second row of x, and through rows of dy that lie behind each other. What is next counts
 * elements. In this order in assembly. */
struct poet_rows_by_2 {
    int32_t samples;
    int32_t rows;
    int32_t strips;   /* of dy in a row */
    int32_t row_next; /* from behind a row of x to the next that is met */
    int32_t dy_other; /* to the next output channel */
    int32_t x_next;   /* from the row of x that would be next to a sample's first */
    int32_t dy_next;
    int32_t left; /* columns of x behind the strips: where they are odd, the last result has met padding */
};

/* As poet_conv2d_tap_rows_f32. */
void poet_conv2d_tap_rows_by_2_f32(const struct poet_rows_by_2 *at, const float *x, const float *dy,
                                   float totals[4][3]);

#endif
