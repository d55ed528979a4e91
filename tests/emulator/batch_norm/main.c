/* SPDX-License-Identifier: Apache-2.0 */
/* Prints, for each width of a plane, the CRC-32 of the bits of batch norms forward over planes of that width. */
#include "batch_norm.h"
#include "console.h"
#include "crc32.h"
#include "hal.h"
#include "poet.h"
#include "poet_math.h"

enum { WIDTHS = 35, HEIGHTS = 5, SAMPLES = 5, CHANNELS = 2 };

static float x[SAMPLES * CHANNELS * HEIGHTS * WIDTHS];
static float y[SAMPLES * CHANNELS * HEIGHTS * WIDTHS];
static float statistics[2 * CHANNELS];
static const float affine[2 * CHANNELS] = {0.75f, -1.5f, 0.25f, 0.0f};

/* Numbers of different sizes and signs, some of them -0. */
static void fill(uint32_t seed)
{
    for (int32_t i = 0; i < SAMPLES * CHANNELS * HEIGHTS * WIDTHS; i++) {
        seed = seed * 1664525u + 1013904223u;
        const uint32_t exponent = 120u + (seed >> 9 & 15u);
        const uint32_t zero = (seed >> 13 & 7u) == 0u;
        x[i] = poet_float_from_bits(zero ? 0x80000000u
                                         : (seed & 0x80000000u) | exponent << 23 | (seed >> 8 & 0x7fffffu));
    }
}

static uint32_t normalized(uint32_t crc, int32_t samples, int32_t height, int32_t width)
{
    const struct poet_batch_norm_statistics taken = {samples, CHANNELS, height, width};
    const struct poet_batch_norm op = {samples, CHANNELS, height, width, 1e-5f};
    fill((uint32_t)(samples * 1000 + height * 100 + width));
    poet_batch_norm_statistics_f32(&taken, x, statistics);
    poet_batch_norm_normalize_f32(&op, x, statistics, affine, y);
    crc = poet_crc32(crc, statistics, sizeof statistics);
    return poet_crc32(crc, y, (uint32_t)(samples * CHANNELS * height * width) * sizeof y[0]);
}

_Noreturn void poet_run(void)
{
    poet_hal_init();
    for (int32_t width = 1; width <= WIDTHS; width++) {
        uint32_t crc = 0u;
        for (int32_t height = 1; height <= HEIGHTS; height++) {
            for (int32_t samples = 1; samples <= SAMPLES; samples++) {
                crc = normalized(crc, samples, height, width);
            }
        }
        poet_print_hex(crc);
        poet_print("\n");
    }
    poet_hal_exit(0);
}
