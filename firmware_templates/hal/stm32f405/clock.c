/* SPDX-License-Identifier: Apache-2.0 */
/* 168 MHz from the PLL, locked to the crystal (RM0090, chapter 7, and chapter 3 for flash). */
#include "for_size.h"

#include "hal_pins.h"
#include "rcc.h"
#include "status.h"
#include "wait.h"

#define CR_HSION (1u << 0)
#define CR_HSIRDY (1u << 1)
#define CR_HSEON (1u << 16)
#define CR_HSERDY (1u << 17)
#define CR_PLLON (1u << 24)
#define CR_PLLRDY (1u << 25)

/* The PLL multiplies 1 MHz to 336, and divides that by 2 for the core and by 7 for USB, which is not used. */
#define PLLCFGR_M(divider) (divider)
#define PLLCFGR_N(factor) ((factor) << 6)
#define PLLCFGR_P_2 (0u << 16)
#define PLLCFGR_SOURCE_HSE (1u << 22)
#define PLLCFGR_Q(divider) ((divider) << 24)

#define CFGR_SW_PLL 2u
#define CFGR_SWS (3u << 2)
#define CFGR_SWS_PLL (2u << 2)
#define CFGR_PPRE1_4 (5u << 10) /* 42 MHz, the maximum of APB1 */
#define CFGR_PPRE2_2 (4u << 13)

#define FLASH_ACR 0x40023c00u
#define FLASH_ACR_LATENCY 7u
#define FLASH_ACR_5_WAIT_STATES 5u /* for more than 150 MHz at 2.7 V or more */
/* Prefetch stays off: revision A chips have an erratum (ES0182). */
#define FLASH_ACR_CACHES (3u << 9)

#define SLOW_HZ 16000000u
#define FAST_APB2_HZ 84000000u

_Static_assert(POET_CRYSTAL_MHZ >= 4u && POET_CRYSTAL_MHZ <= 26u, "the oscillator takes 4 to 26 MHz");

static void set(uint32_t address, uint32_t bits)
{
    poet_write(address, poet_read(address) | bits);
}

/* Restores the reset state: a bootloader may have left the core on the PLL, which cannot be configured while it runs.
 * */
static int use_own_oscillator(void)
{
    set(RCC_CR, CR_HSION);
    if (!poet_wait(RCC_CR, CR_HSIRDY, CR_HSIRDY, POET_POLLS)) {
        return POET_STM32F405_ERROR_OSCILLATOR;
    }
    poet_write(RCC_CFGR, 0u);
    if (!poet_wait(RCC_CFGR, CFGR_SWS, 0u, POET_POLLS)) {
        return POET_STM32F405_ERROR_OSCILLATOR;
    }
    poet_write(RCC_CR, poet_read(RCC_CR) & ~CR_PLLON);
    return poet_wait(RCC_CR, CR_PLLRDY, 0u, POET_POLLS) ? (int)POET_OK : POET_STM32F405_ERROR_OSCILLATOR;
}

static int start_crystal(void)
{
    set(RCC_CR, CR_HSEON);
    return poet_wait(RCC_CR, CR_HSERDY, CR_HSERDY, POET_POLLS) ? (int)POET_OK
                                                                : POET_STM32F405_ERROR_CRYSTAL;
}

static int slow_flash_down(void)
{
    poet_write(FLASH_ACR, FLASH_ACR_5_WAIT_STATES | FLASH_ACR_CACHES);
    return poet_wait(FLASH_ACR, FLASH_ACR_LATENCY, FLASH_ACR_5_WAIT_STATES, POET_POLLS)
               ? (int)POET_OK
               : POET_STM32F405_ERROR_FLASH;
}

static int start_pll(void)
{
    poet_write(RCC_PLLCFGR, PLLCFGR_M(POET_CRYSTAL_MHZ) | PLLCFGR_N(336u) | PLLCFGR_P_2 |
                                PLLCFGR_SOURCE_HSE | PLLCFGR_Q(7u));
    set(RCC_CR, CR_PLLON);
    return poet_wait(RCC_CR, CR_PLLRDY, CR_PLLRDY, POET_POLLS) ? (int)POET_OK : POET_STM32F405_ERROR_PLL;
}

static int use_pll(void)
{
    poet_write(RCC_CFGR, CFGR_PPRE1_4 | CFGR_PPRE2_2);
    poet_write(RCC_CFGR, CFGR_PPRE1_4 | CFGR_PPRE2_2 | CFGR_SW_PLL);
    return poet_wait(RCC_CFGR, CFGR_SWS, CFGR_SWS_PLL, POET_POLLS) ? (int)POET_OK
                                                                    : POET_STM32F405_ERROR_SWITCH;
}

static int start_fast_clock(void)
{
    POET_TRY(use_own_oscillator());
    POET_TRY(start_crystal());
    POET_TRY(slow_flash_down());
    POET_TRY(start_pll());
    return use_pll();
}

int poet_clock_start(uint32_t *apb2_hz)
{
    const int status = start_fast_clock();
    if (status == POET_OK) {
        *apb2_hz = FAST_APB2_HZ;
    } else {
        poet_write(RCC_CFGR, 0u); /* with the prescalers */
        *apb2_hz = SLOW_HZ;
    }
    return status;
}
