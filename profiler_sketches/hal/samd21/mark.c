/* SPDX-License-Identifier: Apache-2.0 */
/* The MKR's pin 6, and the lamp on the board with it, is high while a case runs; choose another with
 * -DPOET_PIN_MARK=POET_PIN(port, number). */
#include "hal_pins.h"
#include "mark.h"
#include "port.h"

#ifndef POET_PIN_MARK
#define POET_PIN_MARK POET_PIN(0u, 20u)
#endif

void poet_mark(int begins)
{
    if (begins) {
        poet_port_output_high(POET_PIN_MARK);
    } else {
        poet_port_write(POET_PIN_MARK, 0);
    }
}
