/* SPDX-License-Identifier: Apache-2.0 */
/* The inner blocks of all convolutions, forward and dX, that have no others: four positions in four channels each. */
#ifndef POET_CONV2D_BLOCKS_H
#define POET_CONV2D_BLOCKS_H

#include <stdint.h>

#include "dot.h"

/* In this order in assembly. What is next counts elements. */
struct poet_blocks {
    struct poet_dot walk; /* over channels, rows and columns of taps: source and weights, a tap at least */
    int32_t source_next;  /* to the next position */
    int32_t weight_next;  /* to the next channel of results */
    int32_t result_next;
    int32_t result_channel;
    int32_t fours;     /* of channels of results, 1 at least */
    const float *bias; /* of four channels */
    int32_t bias_next; /* to the next four */
};

/* The sums of a channel's taps are added up, and the bias to that. */
void poet_conv2d_blocks_f32(const struct poet_blocks *at, const float *source,
                            const float *weight, float *result);

#endif
