/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_pointwise_rows.h"

#include "unroll.h"

#if !defined(__ARM_ARCH_7EM__) || !defined(__ARM_FP)

/* The same sums in C. */
#define UNROLLED POET_UNROLL(4)

/* Of a row, and to the next one in x. */
#define COLUMNS (at->first + 1 + POET_STRIP * at->strips)
#define ROW_BY_2 (at->x_row + 2 * POET_STRIP * at->strips)
#define ROW_BY_ANY (at->x_row + ANY * COLUMNS)
#define ANY (at->x_step / (int32_t)sizeof(float))

static inline __attribute__((always_inline)) void
sum_fours(const struct poet_fours *at, const float *pair, const float *four, float *result,
          int32_t channels, int32_t pair_step, int32_t pair_row, int32_t four_step, int32_t four_row)
{
    const int32_t columns = COLUMNS;
    for (int32_t block = 0; block < at->blocks; block++) {
        const float *p = pair;
        const float *f = four;
        float totals[4][2] = {{0.0f}};
        for (int32_t n = 0; n < at->samples; n++) {
            for (int32_t row = 0; row < at->rows; row++) {
                float sums[4][2] = {{0.0f}};
                for (int32_t column = 0; column < columns; column++) {
                    const float *factors = f + column * four_step;
                    UNROLLED
                    for (int32_t i = 0; i < 4; i++) {
                        factors += i > 0 ? at->four_other[i - 1] : 0;
                        const float factor = *factors;
                        UNROLLED
                        for (int32_t c = 0; c < channels; c++) {
                            sums[i][c] += p[c * at->pair_other + column * pair_step] * factor;
                        }
                    }
                }
                UNROLLED
                for (int32_t i = 0; i < 4; i++) {
                    UNROLLED
                    for (int32_t c = 0; c < channels; c++) {
                        totals[i][c] += sums[i][c];
                    }
                }
                p += pair_row;
                f += four_row;
            }
            p += at->pair_next;
            f += at->four_next;
        }
        for (int32_t i = 0; i < 4; i++) {
            for (int32_t c = 0; c < channels; c++) {
                result[c * at->result_pair] = totals[i][c];
            }
            result += at->result_four;
        }
        four += 4 * at->four_other[0];
    }
}

#define FOURS(name, ...)                                                                       \
    void poet_conv2d_##name##_f32(const struct poet_fours *at, const float *pair,              \
                                  const float *four, float *result)                            \
    {                                                                                          \
        sum_fours(at, pair, four, result, __VA_ARGS__);                                        \
    }

FOURS(pair_fours, 2, 1, COLUMNS, 1, COLUMNS)
FOURS(one_fours, 1, 1, COLUMNS, 1, COLUMNS)
FOURS(pair_by_2_fours, 2, 2, ROW_BY_2, 1, COLUMNS)
FOURS(one_by_2_fours, 1, 2, ROW_BY_2, 1, COLUMNS)
FOURS(pair_fours_by_2, 2, 1, COLUMNS, 2, ROW_BY_2)
FOURS(one_fours_by_2, 1, 1, COLUMNS, 2, ROW_BY_2)
FOURS(pair_by_any_fours, 2, ANY, ROW_BY_ANY, 1, COLUMNS)
FOURS(one_by_any_fours, 1, ANY, ROW_BY_ANY, 1, COLUMNS)
FOURS(pair_fours_by_any, 2, 1, COLUMNS, ANY, ROW_BY_ANY)
FOURS(one_fours_by_any, 1, 1, COLUMNS, ANY, ROW_BY_ANY)

#endif
