/* SPDX-License-Identifier: Apache-2.0 */
/* The MKR's pin 6, and the lamp on the board with it, is high while a case runs; choose another with
 * -DPOET_PIN_MARK=POET_PIN(port, number). */
#include "hal_pins.h"
#include "port.h"
#include "profile.h"

#ifndef POET_PIN_MARK
#define POET_PIN_MARK POET_PIN(0u, 20u)
#endif

void poet_mark(int begins)
{
    poet_port_write(POET_PIN_MARK, begins);
    poet_write(PORT_DIRSET(POET_PIN_MARK), 1u << POET_PIN_MARK % 32u);
}
