/* SPDX-License-Identifier: Apache-2.0 */
/* The nRF52840-DK's pin D7 is high while a case runs; choose another with -DPOET_PIN_MARK=POET_PIN(port, number). */
#include "gpio.h"
#include "hal_pins.h"
#include "profile.h"

#ifndef POET_PIN_MARK
#define POET_PIN_MARK POET_PIN(1u, 8u)
#endif

void poet_mark(int begins)
{
    poet_gpio_write(POET_PIN_MARK, begins);
    poet_write(GPIO_PIN_CNF(POET_PIN_MARK), GPIO_CNF_OUTPUT);
}
