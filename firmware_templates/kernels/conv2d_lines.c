/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_lines.h"

#include "unroll.h"

#if !defined(__ARM_ARCH_7EM__) || !defined(__ARM_FP)

/* The same sums in C. */
#define UNROLLED POET_UNROLL(4)

static inline __attribute__((always_inline)) void
sum_tap_lines(const struct poet_lines *at, const struct poet_tap *tap, int32_t outputs,
              int32_t inputs, float totals[8])
{
    const int32_t columns = tap->columns;
    const float *x = at->x + tap->x_first;
    const float *dy = at->dy + tap->dy_first;
    for (int32_t i = 0; i < outputs * inputs; i++) {
        totals[i] = 0.0f;
    }
    for (int32_t n = 0; n < at->samples; n++) {
        for (int32_t row = 0; row < tap->rows; row++) {
            float sums[8] = {0.0f};
            for (int32_t column = 0; column < columns; column++) {
                UNROLLED
                for (int32_t o = 0; o < outputs; o++) {
                    const float gradient = dy[o * at->dy_other + column];
                    UNROLLED
                    for (int32_t c = 0; c < inputs; c++) {
                        sums[inputs * o + c] += x[c * at->x_other + column * at->stride] * gradient;
                    }
                }
            }
            UNROLLED
            for (int32_t i = 0; i < outputs * inputs; i++) {
                totals[i] += sums[i];
            }
            x += columns * at->stride + tap->x_row;
            dy += columns + tap->dy_row;
        }
        x += tap->x_next;
        dy += tap->dy_next;
    }
}

static inline __attribute__((always_inline)) void
sum_lines(const struct poet_lines *at, int32_t outputs, int32_t inputs, float totals[][POET_TAPS])
{
    for (int32_t tap = 0; tap < at->count; tap++) {
        float sums[8];
        sum_tap_lines(at, &at->taps[tap], outputs, inputs, sums);
        for (int32_t i = 0; i < outputs * inputs; i++) {
            totals[i][tap] = sums[i];
        }
    }
}

void poet_conv2d_lines_f32(const struct poet_lines *at, float totals[][POET_TAPS])
{
    sum_lines(at, 4, 1, totals);
}

void poet_conv2d_pair_lines_f32(const struct poet_lines *at, float totals[][POET_TAPS])
{
    sum_lines(at, 4, 2, totals);
}

void poet_conv2d_single_lines_f32(const struct poet_lines *at, float totals[][POET_TAPS])
{
    sum_lines(at, 1, 1, totals);
}

void poet_conv2d_single_pair_lines_f32(const struct poet_lines *at, float totals[][POET_TAPS])
{
    sum_lines(at, 1, 2, totals);
}

#endif
