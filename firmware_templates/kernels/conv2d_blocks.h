/* SPDX-License-Identifier: Apache-2.0 */
/* The inner blocks of all convolutions, forward and dX, that have no others: four positions in four channels each. */
#ifndef POET_CONV2D_BLOCKS_H
#define POET_CONV2D_BLOCKS_H

#include <stdint.h>

#include "dot.h"

/* Four of something, and their results: elements from the first to the others. In this order in assembly. Where those to
 * the second and the fourth are 1 and 3, that to the third is 2. */
struct poet_lanes {
    int32_t apart[3];
    int32_t result[3];
};

/* In this order in assembly. What is next counts elements. */
struct poet_blocks {
    struct poet_dot walk; /* over channels, rows and columns of taps: source and weights, a tap at least */
    int32_t weight_next;  /* to the next channel of results */
    int32_t result_channel;
    int32_t fours;     /* of channels of results, 1 at least */
    const float *bias; /* of four channels */
    int32_t bias_next; /* to the next four */
    const struct poet_lanes *lanes; /* the positions */
};

/* The sums of a channel's taps are added up, and the bias to that. */
void poet_conv2d_blocks_f32(const struct poet_blocks *at, const float *source,
                            const float *weight, float *result);

/* The sums of four `a`, each with the same `b`, and the bias. */
void poet_conv2d_four_f32(const struct poet_dot *walk, const float *a, const float *b,
                          const struct poet_lanes *lanes, const float *bias, float *result);

#endif
