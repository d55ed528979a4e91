/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "sd.h"
#include "spi.h"

void DMAC_Handler(void);

void DMAC_Handler(void)
{
    if (poet_hal_spi_take_end()) {
        poet_sd_exchanged();
    }
}
