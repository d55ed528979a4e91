/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_bursts.h"

#if !defined(__ARM_ARCH_7EM__) || !defined(__ARM_FP)

/* The same sums in C, for one channel of results after the other. */
static inline __attribute__((always_inline)) void
sum_burst(const struct poet_bursts *bursts, const float *source, const float *weight,
          int32_t weight_channel, float shift, float *result)
{
    float *halves[] = {result, result + bursts->result_four};
    struct poet_burst sums = {{0.0f}};
    POET_EACH_OF_BURST
    for (int i = 0; i < POET_BURST; i++) {
        sums.of[i] = bursts->further ? halves[i / 4][i % 4] : 0.0f;
    }
    for (int32_t channel = 0; channel < bursts->channels; channel++) {
        POET_EACH_OF_BURST
        for (int i = 0; i < POET_BURST; i++) {
            sums.of[i] += source[i] * *weight;
        }
        source += bursts->source_next;
        weight += weight_channel;
    }
    POET_EACH_OF_BURST
    for (int i = 0; i < POET_BURST; i++) {
        halves[i / 4][i % 4] = sums.of[i] + shift;
    }
}

static inline __attribute__((always_inline)) void
sum_bursts(const struct poet_bursts *bursts, const float *source, const float *weight,
           int32_t weight_channel, int32_t weight_result, float *result)
{
    const int32_t last = bursts->positions - POET_BURST;
    for (int32_t burst = 0; burst < last + POET_BURST; burst += POET_BURST) {
        const int32_t at = burst < last ? burst : last;
        for (int32_t channel = 0; channel < bursts->results; channel++) {
            sum_burst(bursts, source + at, weight + channel * weight_result, weight_channel,
                      bursts->shift[channel * bursts->shift_next],
                      result + channel * bursts->result_next + at);
        }
    }
}

void poet_conv2d_bursts_f32(const struct poet_bursts *bursts, const float *source,
                            const float *weight, float *result)
{
    sum_bursts(bursts, source, weight, 1, bursts->weight_next, result);
}

void poet_conv2d_bursts_backwards_f32(const struct poet_bursts *bursts, const float *source,
                                      const float *weight, float *result)
{
    sum_bursts(bursts, source, weight, bursts->weight_next, 1, result);
}

void poet_conv2d_bursts_of_one_f32(const struct poet_bursts *bursts, const float *source,
                                   const float *weight, float *result)
{
    sum_bursts(bursts, source, weight, 0, 1, result);
}

void poet_conv2d_gather_f32(const struct poet_gather *at, const float *source, float *to)
{
    const int32_t size = sizeof *source;
    int32_t column = at->column;
    for (int32_t i = 0; i < POET_FOUR * at->fours; i++) {
        for (int32_t channel = 0; channel < at->channels; channel++) {
            to[channel * at->next / size + i] = source[channel * at->source_next / size];
        }
        column = column + 1 < at->width ? column + 1 : 0;
        source += (column > 0 ? at->step : at->turn) / size;
    }
}

#endif
