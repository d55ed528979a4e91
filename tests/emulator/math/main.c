/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the CRC-32 of the bits of each math function over bit patterns spread over all floats. */
#include "console.h"
#include "crc32.h"
#include "hal.h"
#include "poet.h"
#include "poet_math.h"

#define STRIDE 65521u

static void print_crc(const char *name, float (*function)(float))
{
    uint32_t crc = 0u;
    uint32_t pattern = 0u;
    do {
        const uint32_t bits = poet_float_bits(function(poet_float_from_bits(pattern)));
        crc = poet_crc32(crc, &bits, sizeof bits);
        pattern += STRIDE;
    } while (pattern >= STRIDE); /* until it wraps */
    poet_print(name);
    poet_print("=");
    poet_print_hex(crc);
    poet_print("\n");
}

_Noreturn void poet_run(void)
{
    poet_hal_init();
    print_crc("expf", poet_expf);
    print_crc("logf", poet_logf);
    print_crc("sqrtf", poet_sqrtf);
    print_crc("tanhf", poet_tanhf);
    poet_hal_exit(0);
}
