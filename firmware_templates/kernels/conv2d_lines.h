/* SPDX-License-Identifier: Apache-2.0 */
/* The inner blocks of dW of all convolutions that have no others: one tap of the kernel, and four output channels. */
#ifndef POET_CONV2D_LINES_H
#define POET_CONV2D_LINES_H

#include <stdint.h>

#include "conv2d_strip.h"

/* Taps that are summed in one call, and whose weights lie behind each other. */
enum { POET_TAPS = 9 };

/* The positions at which a tap meets the input. In this order in assembly. What is next counts elements. */
struct poet_tap {
    int32_t x_next;   /* from the row that would be next to a sample's last one to the next sample's first */
    int32_t x_first;  /* the first position */
    int32_t dy_first;
    int32_t x_row;    /* from behind a row of x, which is a stride behind its last column, to the next that is met */
    int32_t dy_row;   /* the same of dy */
    int32_t columns;
    int32_t dy_next;  /* as x_next */
    int32_t rows;     /* 0 where the tap meets nothing */
};

/* What they have in common. In this order in assembly. */
struct poet_lines {
    const float *x;
    const float *dy;
    int32_t x_other;  /* to the next input channel */
    int32_t dy_other; /* to the next output channel */
    int32_t samples;
    int32_t stride;   /* to the next column of x */
    int32_t count;
    const struct poet_tap *taps;
};

/* The sums of each row, one after the other: of one or two input channels, for four output channels or a single one. */
typedef void poet_sum_lines_f32(const struct poet_lines *at, float totals[][POET_TAPS]);

poet_sum_lines_f32 poet_conv2d_lines_f32;
poet_sum_lines_f32 poet_conv2d_pair_lines_f32;
poet_sum_lines_f32 poet_conv2d_single_lines_f32;
poet_sum_lines_f32 poet_conv2d_single_pair_lines_f32;

#endif
