/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_strip_by_2.h"

#include <stdbool.h>

#include "unroll.h"

#if !defined(__ARM_ARCH_7EM__) || !defined(__ARM_FP)

/* The same sums in C. */
#define UNROLLED POET_UNROLL(4)

static void sum_strip(const struct poet_strips *strips, uint32_t edges, const float *source,
                      const float *weight, float *result)
{
    const int32_t rows = (edges & POET_TWO_ROWS) != 0u ? 2 : 3;
    const bool left = (edges & POET_LEFT_EDGE) != 0u;
    const bool right = (edges & POET_RIGHT_EDGE) != 0u;
    float totals[2][POET_STRIP] = {{0.0f}};
    for (int32_t channel = 0; channel < strips->channels; channel++) {
        float sums[2][POET_STRIP] = {{0.0f}};
        for (int32_t row = 0; row < rows; row++) {
            const float columns[] = {left ? 0.0f : source[-1], source[0], source[1],
                                     source[2], source[3], source[4],
                                     source[5], source[6], right ? 0.0f : source[7]};
            UNROLLED
            for (int32_t tap = 0; tap < 3; tap++) {
                UNROLLED
                for (int32_t i = 0; i < POET_STRIP; i++) {
                    sums[0][i] += columns[2 * i + tap] * weight[tap];
                    sums[1][i] += columns[2 * i + tap] * weight[strips->weight_other + tap];
                }
            }
            weight += 3;
            source += row + 1 < rows ? strips->row_next : strips->channel_next;
        }
        poet_add_strips(sums, totals);
        weight += strips->weight_next;
    }
    poet_put_strips(strips, totals, result);
}

void poet_conv2d_strips_by_2_f32(const struct poet_strips *strips, const float *source,
                                 const float *weight, float *result)
{
    poet_each_strip(strips, sum_strip, source, weight, result);
}

/* The products of one row of the kernel with five columns of dy. */
static inline __attribute__((always_inline)) void
add_wide_row(const float *dy, bool right, const float *weight, float sums[2 * POET_STRIP])
{
    const float columns[] = {dy[0], dy[1], dy[2], dy[3], right ? 0.0f : dy[4]};
    UNROLLED
    for (int32_t i = 0; i < POET_STRIP; i++) {
        sums[2 * i] += columns[i] * weight[1];
        sums[2 * i + 1] += columns[i + 1] * weight[0];
        sums[2 * i + 1] += columns[i] * weight[2];
    }
}

void poet_conv2d_wide_strip_f32(const struct poet_wide_strip *strip, const float *dy,
                                const float *weight, float *dx)
{
    const bool right = (strip->edges & POET_RIGHT_EDGE) != 0u;
    const int32_t columns = (strip->edges & POET_SEVEN_COLUMNS) != 0u ? 7 : 8;
    const int32_t rows = (strip->edges & POET_UPPER_ROW) != 0u ? 1 : 2;
    float totals[2][2 * POET_STRIP] = {{0.0f}};
    for (int32_t channel = 0; channel < strip->channels; channel++) {
        float sums[2][2 * POET_STRIP] = {{0.0f}};
        add_wide_row(dy, right, weight + 3, sums[0]);
        if ((strip->edges & POET_LAST_ROW) == 0u) {
            add_wide_row(dy + strip->row_next, right, weight, sums[1]);
        }
        add_wide_row(dy, right, weight + 6, sums[1]);
        UNROLLED
        for (int32_t i = 0; i < 2 * POET_STRIP; i++) {
            totals[0][i] += sums[0][i];
            totals[1][i] += sums[1][i];
        }
        dy += strip->channel_next;
        weight += strip->weight_next;
    }
    for (int32_t row = 0; row < rows; row++) {
        for (int32_t i = 0; i < columns; i++) {
            dx[row * strip->result_next + i] = totals[row][i];
        }
    }
}

void poet_conv2d_tap_rows_by_2_f32(const struct poet_rows_by_2 *at, const float *x, const float *dy,
                                   float totals[4][3])
{
    const int32_t width = 2 * POET_STRIP * at->strips + at->left;
    for (int32_t n = 0; n < at->samples; n++) {
        for (int32_t row = 0; row < at->rows; row++) {
            float sums[4][3] = {{0.0f}};
            for (int32_t column = 0; column < width; column += 2) {
                const float met[] = {column > 0 ? x[column - 1] : 0.0f, x[column],
                                     column < width - 1 ? x[column + 1] : 0.0f};
                UNROLLED
                for (int32_t o = 0; o < 4; o++) {
                    UNROLLED
                    for (int32_t tap = 0; tap < 3; tap++) {
                        sums[o][tap] += met[tap] * dy[o * at->dy_other + column / 2];
                    }
                }
            }
            UNROLLED
            for (int32_t o = 0; o < 4; o++) {
                UNROLLED
                for (int32_t tap = 0; tap < 3; tap++) {
                    totals[o][tap] += sums[o][tap];
                }
            }
            x += width + at->row_next;
            dy += (width + 1) / 2;
        }
        x += at->x_next;
        dy += at->dy_next;
    }
}

#endif
