/* SPDX-License-Identifier: Apache-2.0 */
/* The inner blocks of 1x1 convolutions, forward and dX. */
#ifndef POET_CONV2D_BURSTS_H
#define POET_CONV2D_BURSTS_H

#include <stdint.h>

#include "burst.h"

/* Positions: half a burst. */
enum { POET_FOUR = 4 };

/* Sums at POET_BURST neighbouring positions at a time, of which the last may be made again, in two channels of results, and in
 * a last one. In this order in assembly. What is next counts elements. */
struct poet_bursts {
    int32_t channels;    /* of the source, 1 at least */
    int32_t results;     /* channels of those, 1 at least */
    int32_t source_next; /* to the next channel */
    int32_t weight_next; /* to the weights of the next output channel: one of results, for dX one of the source */
    int32_t result_next; /* to the next channel */
    const float *shift;  /* what is added to the sums of two channels */
    int32_t shift_next;  /* to the next channel's; 0 where all have the same */
    int32_t positions;   /* POET_BURST at least */
    int32_t result_four; /* from the first half of a burst's results to the second: 4 where they are neighbours */
    int32_t further;     /* whether results are the sums of channels before these */
};

typedef void poet_sum_bursts_f32(const struct poet_bursts *bursts, const float *source,
                                 const float *weight, float *result);

poet_sum_bursts_f32 poet_conv2d_bursts_f32;
poet_sum_bursts_f32 poet_conv2d_bursts_backwards_f32; /* for dX */
/* For both where the source has one channel. A burst's results are neighbours, and new. */
poet_sum_bursts_f32 poet_conv2d_bursts_of_one_f32;

/* Fours of positions of a plane that are no neighbours, and follow each other along its rows. In this order in assembly. */
struct poet_gather {
    int32_t width;       /* positions in a row */
    int32_t step;        /* bytes to the next position */
    int32_t turn;        /* bytes from a row's last position to the next row's first */
    int32_t channels;    /* 1 at least */
    int32_t source_next; /* bytes to the next channel */
    int32_t next;        /* the same of what is gathered */
    int32_t column;      /* of the first position */
    int32_t fours;       /* 1 at least */
};

/* Copies them; `source` is the first position. */
void poet_conv2d_gather_f32(const struct poet_gather *at, const float *source, float *to);

#endif
