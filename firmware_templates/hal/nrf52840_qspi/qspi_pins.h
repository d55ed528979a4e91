/* SPDX-License-Identifier: Apache-2.0 */
/* Pins of the flash; defaults are the nRF52840-DK's. Override by -D. */
#ifndef POET_QSPI_PINS_H
#define POET_QSPI_PINS_H

#include "hal_pins.h"

#ifndef POET_PIN_QSPI_CSN
#define POET_PIN_QSPI_CSN POET_PIN(0u, 17u)
#endif
#ifndef POET_PIN_QSPI_SCK
#define POET_PIN_QSPI_SCK POET_PIN(0u, 19u)
#endif
#ifndef POET_PIN_QSPI_IO0
#define POET_PIN_QSPI_IO0 POET_PIN(0u, 20u)
#endif
#ifndef POET_PIN_QSPI_IO1
#define POET_PIN_QSPI_IO1 POET_PIN(0u, 21u)
#endif
#ifndef POET_PIN_QSPI_IO2
#define POET_PIN_QSPI_IO2 POET_PIN(0u, 22u)
#endif
#ifndef POET_PIN_QSPI_IO3
#define POET_PIN_QSPI_IO3 POET_PIN(0u, 23u)
#endif

#endif
