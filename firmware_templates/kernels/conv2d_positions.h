/* SPDX-License-Identifier: Apache-2.0 */
/* Where the taps of a kernel meet the input, for the gradients of weights. */
#ifndef POET_CONV2D_POSITIONS_H
#define POET_CONV2D_POSITIONS_H

#include <stdint.h>

/* The output positions along one axis at which a tap meets the input, from `output` on, and the
 * input element under the first; `stride` elements of the input lie between two. */
struct poet_positions {
    int32_t output;
    int32_t source;
    int32_t count;
};

static inline struct poet_positions poet_positions_of_tap(int32_t tap, int32_t stride,
                                                          int32_t padding, int32_t in_extent,
                                                          int32_t out_extent)
{
    const int32_t before = padding - tap;
    const int32_t after = before + in_extent;
    const int32_t first = before > 0 ? (before + stride - 1) / stride : 0;
    const int32_t met = after > 0 ? (after + stride - 1) / stride : 0;
    const int32_t end = met < out_extent ? met : out_extent;
    const struct poet_positions none = {0, 0, 0};
    const struct poet_positions positions = {first, first * stride - before, end - first};
    return first < end ? positions : none;
}

#endif
