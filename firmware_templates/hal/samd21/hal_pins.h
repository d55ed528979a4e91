/* SPDX-License-Identifier: Apache-2.0 */
/* Pin assignment of the Arduino MKR boards. A pin is 32 * port + number. SERCOM pins belong to its pads and cannot be
 * moved individually; the card's chip select can be any pin: override by -D. */
#ifndef POET_HAL_PINS_H
#define POET_HAL_PINS_H

#define POET_PIN(port, number) (32u * (port) + (number))

#define POET_PIN_CONSOLE_TX POET_PIN(1u, 22u) /* 14, TX: SERCOM5, pad 2 */
#define POET_PIN_CONSOLE_RX POET_PIN(1u, 23u) /* 13, RX: SERCOM5, pad 3 */
#define POET_PIN_SD_MOSI POET_PIN(0u, 16u)    /* 8: SERCOM1, pad 0 */
#define POET_PIN_SD_CLOCK POET_PIN(0u, 17u)   /* 9: SERCOM1, pad 1 */
#define POET_PIN_SD_MISO POET_PIN(0u, 19u)    /* 10: SERCOM1, pad 3 */

#ifndef POET_PIN_SD_SELECT
#define POET_PIN_SD_SELECT POET_PIN(1u, 10u) /* 4, as on the MKR SD Proto Shield */
#endif

#endif
