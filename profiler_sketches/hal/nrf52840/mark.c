/* SPDX-License-Identifier: Apache-2.0 */
/* The nRF52840-DK's pin D7 is high while a case runs; choose another with -DPOET_PIN_MARK=POET_PIN(port, number). */
#include "gpio.h"
#include "hal_pins.h"
#include "mark.h"

#ifndef POET_PIN_MARK
#define POET_PIN_MARK POET_PIN(1u, 8u)
#endif

void poet_mark(int begins)
{
    if (begins) {
        poet_gpio_output_high(POET_PIN_MARK, 0u);
    } else {
        poet_gpio_write(POET_PIN_MARK, 0);
    }
}
