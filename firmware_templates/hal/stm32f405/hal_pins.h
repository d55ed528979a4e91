/* SPDX-License-Identifier: Apache-2.0 */
/* Pin assignment and crystal of a plain STM32F405RG board. A pin is 16 * port + number. A peripheral's pins belong
 * together and cannot be moved individually; the others can be overridden by -D. */
#ifndef POET_HAL_PINS_H
#define POET_HAL_PINS_H

#define POET_PIN(port, number) (16u * (port) + (number))

#define POET_PIN_CONSOLE_TX POET_PIN(0u, 9u) /* PA9 and PA10: USART1 */
#define POET_PIN_CONSOLE_RX POET_PIN(0u, 10u)
#define POET_PIN_SD_CLOCK POET_PIN(0u, 5u) /* PA5 to PA7: SPI1 */
#define POET_PIN_SD_MISO POET_PIN(0u, 6u)
#define POET_PIN_SD_MOSI POET_PIN(0u, 7u)

#ifndef POET_PIN_SD_SELECT
#define POET_PIN_SD_SELECT POET_PIN(0u, 4u) /* PA4 */
#endif

#ifndef POET_CRYSTAL_MHZ
#define POET_CRYSTAL_MHZ 8u /* a whole number from 4 to 26 */
#endif

#endif
