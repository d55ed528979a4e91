/* SPDX-License-Identifier: Apache-2.0 */
/* The inner blocks of 3x3 and 1x1 convolutions that move by 1. */
#ifndef POET_CONV2D_STRIP_H
#define POET_CONV2D_STRIP_H

#include <stdint.h>

#include "burst.h"
#include "fpu.h"
#include "vectors.h"

/* Whether the core's registers hold strips; conv2d.c is for others. */
enum { POET_BY_STRIPS = POET_HAS_FPU && !POET_HAS_VECTORS };

/* Columns that are summed, or gone through, at a time. */
enum { POET_STRIP = 4 };

/* A strip is eight results, forward or dX: four columns of a row, in two channels. At an edge the first or the last of the
 * six columns that it meets is padding, and a factor of 0. Of three rows, one that is padding is left out. The bits are
 * the Cortex-M's flags N, Z and C. */
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

/* Sums for dW go through rows of x and dy of one width, that lie behind each other. What is next counts elements. */
struct poet_rows {
    int32_t samples;
    int32_t rows;
    int32_t strips;   /* in a row */
    int32_t x_other;  /* to the next input channel */
    int32_t dy_other; /* to the next output channel */
    int32_t x_next;   /* from behind a sample's last row to the next one's first */
    int32_t dy_next;
};

/* Adds to totals the sums of each row, of one input channel and three taps, which are a row of the kernel, for four output
 * channels. A column of padding on either side of x is a factor of 0. */
void poet_conv2d_tap_rows_f32(const struct poet_rows *at, const float *x, const float *dy,
                              float totals[4][3]);

/* The same of two input channels and a single tap, without padding. */
void poet_conv2d_pair_rows_f32(const struct poet_rows *at, const float *x, const float *dy,
                               float totals[4][2]);

/* Sums of a 1x1 kernel at POET_BURST neighbouring positions, of two channels of results at a time. In this order in
 * assembly. What is next counts elements. */
struct poet_bursts {
    int32_t channels; /* of the source, 1 at least */
    int32_t pairs;    /* of channels of results, 1 at least */
    int32_t source_next; /* to the next channel */
    int32_t weight_next; /* to the weights of the next output channel: one of results, for dX one of the source */
    int32_t result_next;
    const float *shift; /* for a pair of channels */
    int32_t shift_next;
};

typedef void poet_sum_bursts_f32(const struct poet_bursts *bursts, const float *source,
                                 const float *weight, float *result);

poet_sum_bursts_f32 poet_conv2d_bursts_f32;
poet_sum_bursts_f32 poet_conv2d_bursts_backwards_f32; /* for dX */

#endif
