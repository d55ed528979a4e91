/* SPDX-License-Identifier: Apache-2.0 */
/* The inner blocks of dW of 1x1 convolutions. */
#ifndef POET_CONV2D_POINTWISE_ROWS_H
#define POET_CONV2D_POINTWISE_ROWS_H

#include <stdint.h>

#include "conv2d_strip.h"

/* Rows of dy, which lie behind each other, and what they meet in x. Channels of one of the two go by fours. Each four meets the same
 * channel of the other, or the same pair. A row begins with 1 to 4 columns, and strips follow. In this order in assembly. What is next
 * or other counts elements. */
struct poet_fours {
    int32_t four_other[3]; /* to each next of the channels that go by fours; 0 where there are fewer */
    int32_t samples;
    int32_t pair_other; /* from one of the pair to the other */
    int32_t rows;
    int32_t four_next; /* from the row that would be next to a sample's last one to the next sample's first */
    int32_t pair_next;
    int32_t strips;
    int32_t first; /* columns that a row begins with, less 1 */
    int32_t x_row; /* for kernels that leave columns or rows out, to the next row of x that is met: from behind a row; of those with stride
                    * 2 from behind its strips to as many columns */
    int32_t result_four; /* from one to the next, of the sums */
    int32_t result_pair;
    int32_t blocks; /* of four, 1 at least */
    int32_t x_step; /* bytes to the next column of x, for kernels with any stride */
};

/* Totals of the sums of each row. */
typedef void poet_sum_fours_f32(const struct poet_fours *at, const float *pair, const float *four,
                                float *result);

poet_sum_fours_f32 poet_conv2d_pair_fours_f32;
poet_sum_fours_f32 poet_conv2d_one_fours_f32;
poet_sum_fours_f32 poet_conv2d_pair_by_2_fours_f32; /* kernels with stride 2: the pair is of x */
poet_sum_fours_f32 poet_conv2d_one_by_2_fours_f32;
poet_sum_fours_f32 poet_conv2d_pair_fours_by_2_f32; /* the fours are of x */
poet_sum_fours_f32 poet_conv2d_one_fours_by_2_f32;
poet_sum_fours_f32 poet_conv2d_pair_by_any_fours_f32; /* by any number */
poet_sum_fours_f32 poet_conv2d_one_by_any_fours_f32;
poet_sum_fours_f32 poet_conv2d_pair_fours_by_any_f32;
poet_sum_fours_f32 poet_conv2d_one_fours_by_any_f32;

#endif
