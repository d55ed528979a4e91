/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "sd.h"
#include "spi.h"

void SPIM0_SPIS0_TWIM0_TWIS0_SPI0_TWI0_IRQHandler(void);

void SPIM0_SPIS0_TWIM0_TWIS0_SPI0_TWI0_IRQHandler(void)
{
    if (poet_hal_spi_take_end()) {
        poet_sd_exchanged();
    }
}
