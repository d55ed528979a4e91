/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_strip_5.h"

#include <stdbool.h>

#include "unroll.h"

#if !defined(__ARM_ARCH_7EM__) || !defined(__ARM_FP)

/* The same sums in C. */
#define UNROLLED POET_UNROLL(11)
#define INLINE static inline __attribute__((always_inline))

/* A row of the kernel in one strip. */
INLINE void add_row(const float *columns, const float *weight, int32_t step, bool backwards,
                    float sums[POET_STRIP])
{
    UNROLLED
    for (int32_t tap = 0; tap < 5; tap++) {
        UNROLLED
        for (int32_t i = 0; i < POET_STRIP; i++) {
            sums[i] += columns[step * i + (backwards ? 4 - tap : tap)] * weight[tap];
        }
    }
}

INLINE void sum_strips(const struct poet_strips_5 *strips, const float *source, const float *weight,
                       float *result, int32_t step, bool backwards)
{
    const int32_t met = step * (POET_STRIP - 1) + 1; /* columns that are no padding at any edge, from 0 on */
    const bool left = (strips->edges & POET_LEFT_EDGE) != 0u;
    const bool right = (strips->edges & POET_RIGHT_EDGE) != 0u;
    const bool last = (strips->edges & (step > 1 ? POET_LAST_COLUMN : POET_RIGHT_EDGE)) != 0u;
    const int32_t upper_end = strips->upper_rows + strips->both_rows;
    const int32_t end = upper_end + strips->lower_rows;
    const float *lower = weight + strips->lower_weight;
    const float *bias = strips->bias;
    for (int32_t pair = 0; pair < strips->pairs; pair++) {
        float totals[2][POET_STRIP] = {{0.0f}};
        for (int32_t channel = 0; channel < strips->channels; channel++) {
            float sums[2][POET_STRIP] = {{0.0f}};
            for (int32_t row = 0; row < end; row++) {
                float columns[2 * POET_STRIP + 3];
                UNROLLED
                for (int32_t i = 0; i < met + 4; i++) {
                    const bool padding =
                        (left && i < 2) || (right && i == met + 2) || (last && i == met + 3);
                    columns[i] = padding ? 0.0f : source[i - 2];
                }
                if (row < upper_end) {
                    add_row(columns, weight, step, backwards, sums[0]);
                    weight += 5;
                }
                if (row >= strips->upper_rows) {
                    add_row(columns, lower, step, backwards, sums[1]);
                    lower += 5;
                }
                source += met + strips->row_next;
            }
            UNROLLED
            for (int32_t i = 0; i < POET_STRIP; i++) {
                totals[0][i] += sums[0][i];
                totals[1][i] += sums[1][i];
            }
            source += strips->channel_next;
            weight += strips->weight_next;
            lower += strips->lower_weight_next;
        }
        UNROLLED
        for (int32_t i = 0; i < POET_STRIP; i++) {
            result[i] = totals[0][i] + bias[0];
            result[strips->lower_result + i] = totals[1][i] + bias[1];
        }
        source += strips->source_pair;
        weight += strips->weight_pair;
        lower += strips->weight_pair;
        bias += strips->bias_pair;
        result += strips->lower_result + strips->result_pair;
    }
}

void poet_conv2d_strips_5_f32(const struct poet_strips_5 *strips, const float *source,
                              const float *weight, float *result)
{
    sum_strips(strips, source, weight, result, 1, false);
}

void poet_conv2d_strips_5_backwards_f32(const struct poet_strips_5 *strips, const float *source,
                                        const float *weight, float *result)
{
    sum_strips(strips, source, weight, result, 1, true);
}

void poet_conv2d_strips_5_by_2_f32(const struct poet_strips_5 *strips, const float *source,
                                   const float *weight, float *result)
{
    sum_strips(strips, source, weight, result, 2, false);
}

void poet_conv2d_wide_strip_5_f32(const struct poet_wide_strip_5 *strip, const float *dy,
                                  const float *weight, float *dx)
{
    const bool left = (strip->edges & POET_LEFT_EDGE) != 0u;
    const bool right = (strip->edges & POET_RIGHT_EDGE) != 0u;
    const int32_t stored = (strip->edges & POET_SEVEN_COLUMNS) != 0u ? 7 : 8;
    float totals[2 * POET_STRIP] = {0.0f};
    for (int32_t channel = 0; channel < strip->channels; channel++) {
        float sums[2 * POET_STRIP] = {0.0f};
        for (int32_t row = 0; row < strip->rows; row++) {
            const float columns[] = {left ? 0.0f : dy[-1], dy[0], dy[1], dy[2], dy[3],
                                     right ? 0.0f : dy[4]};
            UNROLLED
            for (int32_t tap = 0; tap < 5; tap++) {
                UNROLLED
                for (int32_t i = 0; i < POET_STRIP; i++) {
                    sums[2 * i + tap % 2] += columns[i + 2 - tap / 2] * weight[tap];
                }
            }
            dy += POET_STRIP + strip->row_next;
            weight += 10;
        }
        UNROLLED
        for (int32_t i = 0; i < 2 * POET_STRIP; i++) {
            totals[i] += sums[i];
        }
        dy += strip->channel_next;
        weight += strip->weight_next;
    }
    for (int32_t i = 0; i < stored; i++) {
        dx[i] = totals[i];
    }
}

INLINE void sum_rows(const struct poet_rows_5 *at, const float *x, const float *dy,
                     float totals[][5], int32_t channels, int32_t step)
{
    const bool odd = (at->edges & POET_ODD_COLUMNS) != 0u;
    const bool odd_width = step > 1 && (at->edges & POET_ODD_WIDTH) != 0u;
    const int32_t last = step > 1 && odd ? 1 : odd ? 3 : 2;
    const int32_t columns = 2 * at->pairs + last;
    const int32_t width = step * columns - (odd_width ? 1 : 0);
    for (int32_t i = 0; i < 5 * channels; i++) {
        totals[i / 5][i % 5] = 0.0f;
    }
    for (int32_t n = 0; n < at->samples; n++) {
        for (int32_t row = 0; row < at->rows; row++) {
            float sums[4][5] = {{0.0f}};
            for (int32_t column = 0; column < columns; column++) {
                float met[5];
                UNROLLED
                for (int32_t tap = 0; tap < 5; tap++) {
                    const int32_t from = step * column + tap - 2;
                    met[tap] = from >= 0 && from < width ? x[from] : 0.0f;
                }
                UNROLLED
                for (int32_t o = 0; o < channels; o++) {
                    UNROLLED
                    for (int32_t tap = 0; tap < 5; tap++) {
                        sums[o][tap] += met[tap] * dy[o * at->dy_other + column];
                    }
                }
            }
            UNROLLED
            for (int32_t o = 0; o < channels; o++) {
                UNROLLED
                for (int32_t tap = 0; tap < 5; tap++) {
                    totals[o][tap] += sums[o][tap];
                }
            }
            x += width + at->row_next;
            dy += columns;
        }
        x += at->x_next;
        dy += at->dy_next;
    }
}

void poet_conv2d_four_rows_5_f32(const struct poet_rows_5 *at, const float *x, const float *dy,
                                 float totals[][5])
{
    sum_rows(at, x, dy, totals, 4, 1);
}

void poet_conv2d_two_rows_5_f32(const struct poet_rows_5 *at, const float *x, const float *dy,
                                float totals[][5])
{
    sum_rows(at, x, dy, totals, 2, 1);
}

void poet_conv2d_four_rows_5_by_2_f32(const struct poet_rows_5 *at, const float *x, const float *dy,
                                      float totals[][5])
{
    sum_rows(at, x, dy, totals, 4, 2);
}

void poet_conv2d_two_rows_5_by_2_f32(const struct poet_rows_5 *at, const float *x, const float *dy,
                                     float totals[][5])
{
    sum_rows(at, x, dy, totals, 2, 2);
}

#endif
