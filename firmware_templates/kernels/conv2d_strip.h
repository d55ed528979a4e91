/* SPDX-License-Identifier: Apache-2.0 */
/* The inner blocks of 3x3 convolutions with stride 1, and of 1x1 ones forward and for dX. */
#ifndef POET_CONV2D_STRIP_H
#define POET_CONV2D_STRIP_H

#include <stdbool.h>
#include <stdint.h>

#include "burst.h"
#include "fpu.h"
#include "vectors.h"

/* Whether the core's registers hold strips; conv2d.c is for others. */
enum { POET_BY_STRIPS = POET_HAS_FPU && !POET_HAS_VECTORS };

/* Columns that are summed, or gone through, at a time. */
enum { POET_STRIP = 4 };

/* A strip is eight results, forward or dX: four columns of a row, in two channels; a tall one of two rows, in one channel.
 * At an edge the first or the last of the six columns that it meets is padding, and a factor of 0. A row that is padding is
 * left out. The bits are the Cortex-M's flags N, Z, C and V. */
#define POET_LEFT_EDGE 0x80000000u  /* put by what goes along a row */
#define POET_TWO_ROWS 0x40000000u   /* of three; of a tall strip's four the first is left out: */
#define POET_FIRST_CUT POET_TWO_ROWS
#define POET_RIGHT_EDGE 0x20000000u /* of the last strip of a row */
#define POET_LAST_CUT 0x10000000u   /* of a tall strip's four rows */

/* Rows of strips, of which a row's last may make results again, and which meet the same padding. What is next, or where a
 * row begins in planes and weights, counts elements. In this order in assembly. */
struct poet_strips {
    int32_t row_next;     /* of the source; below 0 for dX, where the kernel's rows go up */
    int32_t channel_next; /* from a channel's last row of the source to the first of the next */
    int32_t weight_next;  /* from behind a channel's last weight to the first of the next */
    int32_t weight_other; /* to the weights of the other channel of results */
    int32_t channels;     /* of the source */
    uint32_t edges;
    float bias[2];
    int32_t result_other; /* to the other channel; of a tall strip to the row that meets the source one row later */
    int32_t rows;
    int32_t last;         /* columns of results to a row's last strip */
    int32_t column_bytes; /* of the source, for a column of results */
    int32_t source_next;  /* from a row's last strip to the next row's first */
    int32_t result_next;
    int32_t source_begin; /* the second column that the first strip meets, in the first row that is met */
    int32_t weight_begin; /* the first of that row; of a tall strip the first of all */
    int32_t result_begin;
    int32_t more; /* 0 where no other rows are behind these */
};

/* All rows of a channel or two: `strips` of those at the top, between, and at the bottom. */
typedef void poet_sum_strips_f32(const struct poet_strips *strips, const float *source,
                                 const float *weight, float *result);

poet_sum_strips_f32 poet_conv2d_strips_f32;
poet_sum_strips_f32 poet_conv2d_strips_backwards_f32; /* along columns, for dX */
poet_sum_strips_f32 poet_conv2d_tall_strips_f32;
poet_sum_strips_f32 poet_conv2d_tall_strips_backwards_f32;

/* In C: a strip of these, and what is around it. */
typedef void poet_sum_strip_f32(const struct poet_strips *strips, uint32_t edges,
                                const float *source, const float *weight, float *result);

static inline void poet_each_strip(const struct poet_strips *strips, poet_sum_strip_f32 *sum_strip,
                                   const float *source, const float *weight, float *result)
{
    bool more = true;
    for (; more; strips++) {
        const float *from = source + strips->source_begin;
        float *to = result + strips->result_begin;
        for (int32_t row = 0; row < strips->rows; row++) {
            uint32_t edges = strips->edges | POET_LEFT_EDGE;
            int32_t left = strips->last;
            while (left > 0) {
                const int32_t columns = left < POET_STRIP ? left : POET_STRIP;
                sum_strip(strips, edges & ~POET_RIGHT_EDGE, from, weight + strips->weight_begin, to);
                edges = strips->edges;
                from += columns * strips->column_bytes / (int32_t)sizeof *from;
                to += columns;
                left -= columns;
            }
            sum_strip(strips, edges, from, weight + strips->weight_begin, to);
            from += strips->source_next;
            to += strips->result_next;
        }
        more = strips->more != 0;
    }
}

static inline void poet_add_strips(float sums[2][POET_STRIP], float totals[2][POET_STRIP])
{
    for (int32_t i = 0; i < POET_STRIP; i++) {
        totals[0][i] += sums[0][i];
        totals[1][i] += sums[1][i];
    }
}

static inline void poet_put_strips(const struct poet_strips *strips, float totals[2][POET_STRIP],
                                   float *result)
{
    for (int32_t i = 0; i < POET_STRIP; i++) {
        result[i] = totals[0][i] + strips->bias[0];
        result[strips->result_other + i] = totals[1][i] + strips->bias[1];
    }
}

/* Sums for dW go through rows of x and dy of one width, that lie behind each other. What is next counts elements. */
struct poet_rows {
    int32_t samples;
    int32_t rows;
    int32_t strips;   /* in a row */
    int32_t dy_other; /* to the next output channel */
    int32_t x_next;   /* from behind a sample's last row to the next one's first */
    int32_t dy_next;
    int32_t left; /* columns behind the last strip */
};

/* Adds to totals the sums of each row, of one input channel and three taps, which are a row of the kernel, for four output
 * channels. A column of padding on either side of x is a factor of 0. */
void poet_conv2d_tap_rows_f32(const struct poet_rows *at, const float *x, const float *dy,
                              float totals[4][3]);

/* The same where columns are left behind the last strip. */
void poet_conv2d_tap_odd_rows_f32(const struct poet_rows *at, const float *x, const float *dy,
                                  float totals[4][3]);

#endif
