/* SPDX-License-Identifier: Apache-2.0 */
/* The inner blocks of 5x5 convolutions. */
#ifndef POET_CONV2D_STRIP_5_H
#define POET_CONV2D_STRIP_5_H

#include <stdint.h>

#include "conv2d_strip.h"

/* Two strips that share their source: an upper one and a lower one, each four columns of a row of results. They are two
 * rows of one channel, or one row of two channels, and then more pairs of channels may follow. A column of padding is a factor
 * of 0, a row of padding is left out. First come rows of the source that only the upper strip meets, then those of both, then
 * those of the lower one. */
#define POET_LAST_COLUMN 0x10000000u /* the last column of the source is padding; at POET_RIGHT_EDGE the one before it, too */

/* In this order in assembly. What is next counts elements. */
struct poet_strips_5 {
    int32_t row_next;     /* from behind the columns of a row that are no padding at any edge */
    int32_t pairs;        /* of strips, 1 at least */
    const float *bias;    /* for a pair */
    int32_t lower_weight; /* from the upper strip's first weight to the lower's */
    int32_t channels;     /* of the source */
    int32_t upper_rows;
    int32_t both_rows; /* 1 at least */
    int32_t lower_rows;
    uint32_t edges;
    int32_t channel_next;      /* from the row that would be next to a channel's last to the first of the next */
    int32_t weight_next;       /* from behind the upper strip's weights of a channel to the next channel's */
    int32_t lower_weight_next; /* the same of the lower strip */
    int32_t lower_result;
    int32_t result_pair; /* from a lower strip to the next pair's upper */
    int32_t source_pair; /* from the channel that would be next back to the first */
    int32_t weight_pair; /* from its weights to the next pair's first */
    int32_t bias_pair;
};

/* `source` is the column under the middle of the kernel at the first result, `weight` the first of a row. */
typedef void poet_sum_strips_5_f32(const struct poet_strips_5 *strips, const float *source,
                                   const float *weight, float *result);

poet_sum_strips_5_f32 poet_conv2d_strips_5_f32;
poet_sum_strips_5_f32 poet_conv2d_strips_5_backwards_f32; /* along columns, for dX */
poet_sum_strips_5_f32 poet_conv2d_strips_5_by_2_f32;      /* kernels with stride 2 */

/* For dX of kernels with stride 2, a strip is eight columns of a row: those under the middle of the kernel at four columns of
 * dy, and the next of each. They have met the kernel's even columns, and its odd ones; every other of its rows. */
#define POET_SEVEN_COLUMNS 0x40000000u /* to be stored */

/* In this order in assembly. What is next counts elements. */
struct poet_wide_strip_5 {
    int32_t row_next;     /* from behind four columns of dy */
    int32_t channel_next; /* as above */
    int32_t weight_next;  /* from behind every other row of weights to the next channel's */
    int32_t channels;     /* of dy */
    int32_t rows;         /* of dy, 1 at least */
    uint32_t edges;
};

void poet_conv2d_wide_strip_5_f32(const struct poet_wide_strip_5 *strip, const float *dy,
                                  const float *weight, float *dx);

/* Sums for dW go through rows of dy that lie behind each other, two columns at a time, and the rows of x that a row of the
 * kernel meets there. What is behind the last column of x are two columns of padding. */
#define POET_ODD_COLUMNS 0x80000000u /* of dy: the last one is alone */
#define POET_ODD_WIDTH 0x20000000u   /* of x, for kernels with stride 2 */

/* In this order in assembly. What is next counts elements. */
struct poet_rows_5 {
    int32_t samples;
    int32_t rows;     /* 0 for none */
    int32_t pairs;    /* of columns of dy that meet no padding on the right */
    int32_t row_next; /* from behind a row of x to the next that is met */
    int32_t dy_other; /* to the next output channel */
    int32_t x_next;   /* from the row of x that would be next to a sample's first */
    int32_t dy_next;
    uint32_t edges;
};

/* Totals of the sums of each row, of one input channel and five taps, which are a row of the kernel, for four output
 * channels or two. */
typedef void poet_sum_rows_5_f32(const struct poet_rows_5 *at, const float *x, const float *dy,
                                 float totals[][5]);

poet_sum_rows_5_f32 poet_conv2d_four_rows_5_f32;
poet_sum_rows_5_f32 poet_conv2d_two_rows_5_f32;
poet_sum_rows_5_f32 poet_conv2d_four_rows_5_by_2_f32; /* kernels with stride 2 */
poet_sum_rows_5_f32 poet_conv2d_two_rows_5_by_2_f32;

#endif
