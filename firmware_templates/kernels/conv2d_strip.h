/* SPDX-License-Identifier: Apache-2.0 */
/* The inner blocks of 3x3 convolutions that move by 1. */
#ifndef POET_CONV2D_STRIP_H
#define POET_CONV2D_STRIP_H

#include <stdint.h>

/* Columns that are summed, or gone through, at a time. */
enum { POET_STRIP = 4 };

/* A strip is eight results, forward or dX: four columns of a row, in two channels. Edges of the source that a strip meets: there the first or the last of its six columns is padding, and a factor of
 * 0. Rows that are padding are left out. Bits are the Cortex-M's flags N, C and Z. */
#define POET_LEFT_EDGE 0x80000000u
#define POET_TWO_ROWS 0x40000000u
#define POET_RIGHT_EDGE 0x20000000u

/* In this order in assembly. What is next counts elements. */
struct poet_strip {
    int32_t row_next;     /* of the source; below 0 for dX, where the kernel's rows go up */
    int32_t channel_next; /* from a channel's last row of the source to the first of the next */
    int32_t weight_next;  /* from behind a channel's last weight to the first of the next */
    int32_t weight_other; /* to the weights of the other channel of results */
    int32_t channels;     /* of the source */
    uint32_t edges;
    float bias[2];
    int32_t result_other;
};

/* `source` is the second column that the strip meets, `weight` the first of a row. */
typedef void poet_sum_strip_f32(const struct poet_strip *strip, const float *source,
                                const float *weight, float *result);

poet_sum_strip_f32 poet_conv2d_strip_f32;
poet_sum_strip_f32 poet_conv2d_strip_backwards_f32; /* along columns, for dX */

/* dW of one input channel and three taps, which are a row of the kernel, for four output channels. Rows of x and dy are of
 * one width, with a column of padding on either side of x, which is a factor of 0. Rows of dy are those that meet x. */
struct poet_tap_row {
    int32_t samples;
    int32_t rows;
    int32_t strips;   /* in a row */
    int32_t dy_other; /* elements to the next output channel */
    int32_t x_next;   /* from behind a sample's last row to the next one's first */
    int32_t dy_next;
};

/* Adds to totals the sums of each row. */
void poet_conv2d_tap_row_f32(const struct poet_tap_row *at, const float *x, const float *dy, float totals[4][3]);

#endif
