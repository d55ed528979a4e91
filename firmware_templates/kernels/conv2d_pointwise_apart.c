/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_pointwise_apart.h"

#include <stdbool.h>
#include <stddef.h>

#include "conv2d_clear.h"
#include "conv2d_pointwise.h"
#include "conv2d_strip.h"

/* Positions of a plane that follow each other on one side, and lie along rows, apart, on the other. In this order in assembly. What is
 * next counts bytes. */
struct poet_apart {
    int32_t width;       /* positions in a row */
    int32_t step;        /* to the next position that is apart */
    int32_t turn;        /* what is more from a row's last to the next row's first */
    int32_t positions;   /* of a plane, as many as are summed at a time at least */
    int32_t samples;
    int32_t source_sample; /* to the plane of the next sample */
    int32_t result_sample;
    int32_t source_next; /* to the next channel */
    int32_t weight_next; /* dX: to the weights of the source's next channel */
    int32_t channels;    /* of the source */
    int32_t result_next;
    int32_t results;    /* channels of those */
    const float *shift; /* forward: what is added to them, or NULL */
};

typedef void poet_sum_apart_f32(const struct poet_apart *at, const float *source,
                                const float *weight, float *result);

/* Forward: four positions of a source of so many channels, which stay in registers for all results; eight of a single one. */
poet_sum_apart_f32 poet_conv2d_apart_1_f32;
poet_sum_apart_f32 poet_conv2d_apart_2_f32;
poet_sum_apart_f32 poet_conv2d_apart_3_f32;
poet_sum_apart_f32 poet_conv2d_apart_4_f32;
poet_sum_apart_f32 poet_conv2d_apart_eights_f32;

/* dX: four positions in four channels of results, and in a last one to three; sixteen in a single one. What lies between stays as it
 * is. */
poet_sum_apart_f32 poet_conv2d_apart_backwards_f32;
poet_sum_apart_f32 poet_conv2d_apart_sixteens_f32;

#if !defined(__ARM_ARCH_7EM__) || !defined(__ARM_FP)

/* The same sums in C, one after the other. */
static inline __attribute__((always_inline)) void
sum_apart(const struct poet_apart *at, const float *source, const float *weight, float *result,
          bool backwards)
{
    const int32_t size = sizeof *source;
    const int32_t row = (at->width * at->step + at->turn) / size;
    const int32_t weight_channel = backwards ? at->weight_next / size : 1;
    const int32_t weight_result = backwards ? 1 : at->channels;
    for (int32_t n = 0; n < at->samples; n++) {
        for (int32_t i = 0; i < at->positions; i++) {
            const int32_t apart = i / at->width * row + i % at->width * at->step / size;
            for (int32_t r = 0; r < at->results; r++) {
                const float *from = source + (backwards ? i : apart);
                float sum = 0.0f;
                for (int32_t c = 0; c < at->channels; c++) {
                    sum += *from * weight[c * weight_channel + r * weight_result];
                    from += at->source_next / size;
                }
                sum += at->shift != NULL ? at->shift[r] : 0.0f;
                result[r * at->result_next / size + (backwards ? apart : i)] = sum;
            }
        }
        source += at->source_sample / size;
        result += at->result_sample / size;
    }
}

#define SUMS(name, backwards)                                                                  \
    void poet_conv2d_apart_##name##_f32(const struct poet_apart *at, const float *source,      \
                                        const float *weight, float *result)                    \
    {                                                                                          \
        sum_apart(at, source, weight, result, backwards);                                      \
    }

SUMS(1, false)
SUMS(2, false)
SUMS(3, false)
SUMS(4, false)
SUMS(eights, false)
SUMS(backwards, true)
SUMS(sixteens, true)

#endif

enum { SIZE = sizeof(float), FOUR = 4, EIGHT = 8, SIXTEEN = 16, MOST = 4 /* channels */ };

void poet_conv2d_pointwise_apart_forward_f32(const struct poet_conv2d *op, const float *x,
                                             const float *w, const float *b, float *y)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_pointwise_forward_f32(op, x, w, b, y);
        return;
    }
    static poet_sum_apart_f32 *const sums[1 + MOST] = {
        poet_conv2d_apart_eights_f32, poet_conv2d_apart_1_f32, poet_conv2d_apart_2_f32,
        poet_conv2d_apart_3_f32, poet_conv2d_apart_4_f32};
    const int32_t channels = poet_channels_of_group(op, op->in_channels);
    const int32_t results = poet_channels_of_group(op, op->out_channels);
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t positions = op->out_height * op->out_width;
    const bool eights = channels == 1 && positions >= EIGHT;
    const int32_t step = op->stride_width * SIZE;
    struct poet_apart at = {
        .width = op->out_width,
        .step = step,
        .turn = op->stride_height * op->in_width * SIZE - op->out_width * step,
        .positions = positions,
        .samples = op->batch,
        .source_sample = op->in_channels * in_plane * SIZE,
        .result_sample = op->out_channels * positions * SIZE,
        .source_next = in_plane * SIZE,
        .weight_next = SIZE,
        .channels = channels,
        .result_next = positions * SIZE,
        .results = results,
        .shift = b,
    };
    poet_sum_apart_f32 *const sum = sums[eights ? 0 : channels];
    for (int32_t group = op->groups; group > 0; group--) {
        sum(&at, x, w, y);
        x += channels * in_plane;
        w += channels * results;
        y += results * positions;
        at.shift += b != NULL ? results : 0;
    }
}

void poet_conv2d_pointwise_apart_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                                    const float *dy, float *dx)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_pointwise_backward_input_f32(op, w, dy, dx);
        return;
    }
    const int32_t channels = poet_channels_of_group(op, op->out_channels);
    const int32_t results = poet_channels_of_group(op, op->in_channels);
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t positions = op->out_height * op->out_width;
    const bool sixteens = results == 1 && positions >= SIXTEEN;
    const int32_t step = op->stride_width * SIZE;
    const struct poet_apart at = {
        .width = op->out_width,
        .step = step,
        .turn = op->stride_height * op->in_width * SIZE - op->out_width * step,
        .positions = positions,
        .samples = op->batch,
        .source_sample = op->out_channels * positions * SIZE,
        .result_sample = op->in_channels * in_plane * SIZE,
        .source_next = positions * SIZE,
        .weight_next = results * SIZE,
        .channels = channels,
        .result_next = in_plane * SIZE,
        .results = results,
        .shift = NULL,
    };
    poet_conv2d_clear_f32(dx, op->batch * op->in_channels * in_plane);
    poet_sum_apart_f32 *const sum =
        sixteens ? poet_conv2d_apart_sixteens_f32 : poet_conv2d_apart_backwards_f32;
    for (int32_t group = op->groups; group > 0; group--) {
        sum(&at, dy, w, dx);
        w += channels * results;
        dy += channels * positions;
        dx += results * in_plane;
    }
}
