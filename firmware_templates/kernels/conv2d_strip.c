/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_strip.h"

#include <stdbool.h>

#include "unroll.h"

#if !defined(__ARM_ARCH_7EM__) || !defined(__ARM_FP)

/* The same sums in C. */
#define UNROLLED POET_UNROLL(4)

/* Four columns, and those beside them. */
static inline __attribute__((always_inline)) void
load_row(const float *source, uint32_t edges, float columns[POET_STRIP + 2])
{
    columns[0] = (edges & POET_LEFT_EDGE) != 0u ? 0.0f : source[-1];
    UNROLLED
    for (int32_t i = 0; i < POET_STRIP; i++) {
        columns[1 + i] = source[i];
    }
    columns[POET_STRIP + 1] = (edges & POET_RIGHT_EDGE) != 0u ? 0.0f : source[POET_STRIP];
}

static inline __attribute__((always_inline)) void
add_row(const float columns[POET_STRIP + 2], const float *weight, bool backwards,
        float sums[POET_STRIP])
{
    UNROLLED
    for (int32_t tap = 0; tap < 3; tap++) {
        UNROLLED
        for (int32_t i = 0; i < POET_STRIP; i++) {
            sums[i] += columns[i + (backwards ? 2 - tap : tap)] * weight[tap];
        }
    }
}

static inline __attribute__((always_inline)) void
sum_strip(const struct poet_strips *strips, uint32_t edges, const float *source,
          const float *weight, float *result, bool backwards)
{
    const int32_t rows = (edges & POET_TWO_ROWS) != 0u ? 2 : 3;
    float totals[2][POET_STRIP] = {{0.0f}};
    for (int32_t channel = 0; channel < strips->channels; channel++) {
        float sums[2][POET_STRIP] = {{0.0f}};
        for (int32_t row = 0; row < rows; row++) {
            float columns[POET_STRIP + 2];
            load_row(source, edges, columns);
            add_row(columns, weight, backwards, sums[0]);
            add_row(columns, weight + strips->weight_other, backwards, sums[1]);
            weight += 3;
            source += row + 1 < rows ? strips->row_next : strips->channel_next;
        }
        poet_add_strips(sums, totals);
        weight += strips->weight_next;
    }
    poet_put_strips(strips, totals, result);
}

static inline __attribute__((always_inline)) void
sum_tall_strip(const struct poet_strips *strips, uint32_t edges, const float *source,
               const float *weight, float *result, bool backwards)
{
    const int32_t first = (edges & POET_FIRST_CUT) != 0u ? 1 : 0;
    const int32_t last = (edges & POET_LAST_CUT) != 0u ? 2 : 3;
    float totals[2][POET_STRIP] = {{0.0f}};
    for (int32_t channel = 0; channel < strips->channels; channel++) {
        float sums[2][POET_STRIP] = {{0.0f}};
        for (int32_t row = first; row <= last; row++) {
            float columns[POET_STRIP + 2];
            load_row(source, edges, columns);
            if (row < 3) {
                add_row(columns, weight + 3 * row, backwards, sums[0]);
            }
            if (row > 0) {
                add_row(columns, weight + 3 * (row - 1), backwards, sums[1]);
            }
            source += row < last ? strips->row_next : strips->channel_next;
        }
        poet_add_strips(sums, totals);
        weight += 9 + strips->weight_next;
    }
    poet_put_strips(strips, totals, result);
}

/* Each of these sums has a function for one strip, and one for rows of them. */
#define STRIPS(name, sum, backwards)                                                           \
    static void one_of_##name(const struct poet_strips *strips, uint32_t edges,                \
                              const float *source, const float *weight, float *result)         \
    {                                                                                          \
        sum(strips, edges, source, weight, result, backwards);                                 \
    }                                                                                          \
    void poet_conv2d_##name##_f32(const struct poet_strips *strips, const float *source,       \
                                  const float *weight, float *result)                          \
    {                                                                                          \
        poet_each_strip(strips, one_of_##name, source, weight, result);                        \
    }

STRIPS(strips, sum_strip, false)
STRIPS(strips_backwards, sum_strip, true)
STRIPS(tall_strips, sum_tall_strip, false)
STRIPS(tall_strips_backwards, sum_tall_strip, true)

static void sum_tap_rows(const struct poet_rows *at, int32_t width, const float *x, const float *dy,
                         float totals[4][3])
{
    for (int32_t n = 0; n < at->samples; n++) {
        for (int32_t row = 0; row < at->rows; row++) {
            float sums[4][3] = {{0.0f}};
            for (int32_t column = 0; column < width; column++) {
                const float met[] = {column > 0 ? x[column - 1] : 0.0f, x[column],
                                     column < width - 1 ? x[column + 1] : 0.0f};
                UNROLLED
                for (int32_t o = 0; o < 4; o++) {
                    UNROLLED
                    for (int32_t tap = 0; tap < 3; tap++) {
                        sums[o][tap] += met[tap] * dy[o * at->dy_other + column];
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
            x += width;
            dy += width;
        }
        x += at->x_next;
        dy += at->dy_next;
    }
}

void poet_conv2d_tap_rows_f32(const struct poet_rows *at, const float *x, const float *dy,
                              float totals[4][3])
{
    sum_tap_rows(at, POET_STRIP * at->strips, x, dy, totals);
}

void poet_conv2d_tap_odd_rows_f32(const struct poet_rows *at, const float *x, const float *dy,
                                  float totals[4][3])
{
    sum_tap_rows(at, POET_STRIP * at->strips + at->left, x, dy, totals);
}

#endif
