/* SPDX-License-Identifier: Apache-2.0 */
/* Pin assignment. Defaults are the nRF52840-DK's: reset button, virtual serial port, and an SD card on the Arduino
 * header's SPI pins. A pin is 32 * port + number; override by -D. */
#ifndef POET_HAL_PINS_H
#define POET_HAL_PINS_H

#define POET_PIN(port, number) (32u * (port) + (number))

#ifndef POET_PIN_RESET
#define POET_PIN_RESET POET_PIN(0u, 18u) /* the only possible pin; PSEL_DISCONNECTED for none */
#endif
#ifndef POET_PIN_CONSOLE_TX
#define POET_PIN_CONSOLE_TX POET_PIN(0u, 6u)
#endif
#ifndef POET_PIN_CONSOLE_RX
#define POET_PIN_CONSOLE_RX POET_PIN(0u, 8u)
#endif
#ifndef POET_PIN_SD_SELECT
#define POET_PIN_SD_SELECT POET_PIN(1u, 12u) /* D10 */
#endif
#ifndef POET_PIN_SD_MOSI
#define POET_PIN_SD_MOSI POET_PIN(1u, 13u) /* D11 */
#endif
#ifndef POET_PIN_SD_MISO
#define POET_PIN_SD_MISO POET_PIN(1u, 14u) /* D12 */
#endif
#ifndef POET_PIN_SD_CLOCK
#define POET_PIN_SD_CLOCK POET_PIN(1u, 15u) /* D13 */
#endif

#endif
