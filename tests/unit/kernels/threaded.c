/* SPDX-License-Identifier: Apache-2.0 */
/* Prints CRCs of what kernels leave that divide their work among threads. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "conv2d.h"
#include "crc32.h"
#include "linear.h"
#include "matmul.h"
#include "sgd.h"

enum { ELEMENTS = 60000 };

static float a[ELEMENTS], b[ELEMENTS], c[ELEMENTS], moment[ELEMENTS];

static void fill(float *elements, uint32_t state)
{
    for (int32_t i = 0; i < ELEMENTS; i++) {
        state = state * 1664525u + 1013904223u;
        elements[i] = (float)(int32_t)state * 0x1p-32f;
    }
}

static void start(void)
{
    fill(a, 1u);
    fill(b, 2u);
    fill(c, 3u);
    fill(moment, 4u);
}

static void end(const char *name)
{
    printf("%s %08" PRIx32 "\n", name, poet_crc32(poet_crc32(0u, c, sizeof c), moment, sizeof moment));
    start();
}

int main(void)
{
    /* many lanes and few rows, and the other way round */
    static const struct poet_conv2d ops[] = {
        {2, 1, 6, 33, 29, 5, 33, 29, 3, 3, 1, 1, 1, 1, NULL},
        {1, 1, 60, 4, 4, 70, 2, 2, 3, 3, 2, 2, 1, 1, NULL},
        {3, 2, 8, 9, 9, 10, 9, 9, 1, 1, 1, 1, 0, 0, NULL},
    };
    static const struct poet_sgd sgd = {
        .update = {.step = poet_sgd_step_f32, .learning_rate = 0.1f}, .momentum = 0.9f};
    static const struct poet_conv2d planes = {2, 7, 7, 13, 21, 7, 13, 21, 3, 3, 1, 1, 1, 1, NULL};
    static const struct poet_matmul dense = {1, 37, 301, 83, 301, 1, 1, 301, 83, 1, 32, NULL};
    static const struct poet_matmul input = {1, 37, 83, 301, 83, 1, 301, 1, 301, 1, 83, NULL};
    static const struct poet_matmul update = {1, 83, 37, 301, 1, 83, 301, 1, 301, 1, 37, NULL};
    static const struct poet_matmul product = {3, 41, 70, 53, 70, 1, 53, 1, 53, 1, 32, NULL};
    start();
    for (int32_t i = 0; i < 3; i++) {
        poet_conv2d_forward_f32(&ops[i], a, b, NULL, c);
        end("forward");
        poet_conv2d_backward_input_f32(&ops[i], a, b, c);
        end("backward_input");
        poet_conv2d_backward_weight_f32(&ops[i], a, b, c);
        end("backward_weight");
        poet_conv2d_backward_weight_update_f32(&ops[i], a, b, &sgd.update, NULL, c, moment, NULL, NULL);
        end("backward_weight_update");
        a[7] = b[11] = HUGE_VALF;
        poet_conv2d_forward_f32(&ops[i], a, b, NULL, c);
        end("infinite");
    }
    poet_conv2d_forward_f32(&planes, a, b, NULL, c);
    end("planes");
    poet_conv2d_backward_input_f32(&planes, a, b, c);
    end("planes_input");
    poet_matmul_biased_f32(&dense, a, b, a, c);
    end("dense");
    poet_matmul_f32(&input, b, a, c);
    end("dense_input");
    poet_matmul_update_f32(&update, b, a, &sgd.update, NULL, c, moment, NULL, NULL);
    end("dense_update");
    poet_matmul_f32(&product, a, b, c);
    end("product");
    return 0;
}
