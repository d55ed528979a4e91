/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_blocks.h"

#include "unroll.h"

#if !defined(__ARM_ARCH_7EM__) || !defined(__ARM_FP)

/* The same sums in C. */
#define EACH_OF_FOUR(NAME) POET_UNROLL(4) for (int32_t NAME = 0; NAME < 4; NAME++)

static inline __attribute__((always_inline)) void
sum_block(const struct poet_blocks *at, const float *source, const float *weight, const float *bias,
          float *result)
{
    const struct poet_dot *walk = &at->walk;
    const struct poet_lanes *lanes = at->lanes;
    float totals[4][4] = {{0.0f}};
    for (int32_t channel = 0; channel < walk->outer.count; channel++) {
        float sums[4][4] = {{0.0f}};
        for (int32_t row = 0; row < walk->middle.count; row++) {
            const float *s = source + row * walk->middle.a_next;
            const float *w = weight + row * walk->middle.b_next;
            for (int32_t column = 0; column < walk->inner.count; column++) {
                EACH_OF_FOUR (out) {
                    EACH_OF_FOUR (i) {
                        sums[out][i] +=
                            s[i > 0 ? lanes->apart[i - 1] : 0] * w[out * at->weight_next];
                    }
                }
                s += walk->inner.a_next;
                w += walk->inner.b_next;
            }
        }
        EACH_OF_FOUR (out) {
            EACH_OF_FOUR (i) {
                totals[out][i] += sums[out][i];
            }
        }
        source += walk->outer.a_next;
        weight += walk->outer.b_next;
    }
    EACH_OF_FOUR (out) {
        EACH_OF_FOUR (i) {
            float *to = result + out * at->result_channel;
            to[i > 0 ? lanes->result[i - 1] : 0] = totals[out][i] + bias[out];
        }
    }
}

void poet_conv2d_blocks_f32(const struct poet_blocks *at, const float *source, const float *weight,
                            float *result)
{
    for (int32_t four = 0; four < at->fours; four++) {
        sum_block(at, source, weight + 4 * four * at->weight_next, at->bias + four * at->bias_next,
                  result + 4 * four * at->result_channel);
    }
}

void poet_conv2d_four_f32(const struct poet_dot *walk, const float *a, const float *b,
                          const struct poet_lanes *lanes, const float *bias, float *result)
{
    float totals[4] = {0.0f};
    for (int32_t channel = 0; channel < walk->outer.count; channel++) {
        float sums[4] = {0.0f};
        for (int32_t row = 0; row < walk->middle.count; row++) {
            const float *four = a + row * walk->middle.a_next;
            const float *same = b + row * walk->middle.b_next;
            for (int32_t column = 0; column < walk->inner.count; column++) {
                EACH_OF_FOUR (i) {
                    sums[i] += four[i > 0 ? lanes->apart[i - 1] : 0] * *same;
                }
                four += walk->inner.a_next;
                same += walk->inner.b_next;
            }
        }
        EACH_OF_FOUR (i) {
            totals[i] += sums[i];
        }
        a += walk->outer.a_next;
        b += walk->outer.b_next;
    }
    EACH_OF_FOUR (i) {
        result[i > 0 ? lanes->result[i - 1] : 0] = totals[i] + *bias;
    }
}

#endif
