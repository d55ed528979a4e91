/* SPDX-License-Identifier: Apache-2.0 */
/* Registers from the SAM D21 data sheet, DS40001882: GCLK (chapter 15), PM (16), SYSCTRL (17) and NVMCTRL (22). */
#include "for_size.h"

#include "clock.h"

#include "core.h"
#include "status.h"
#include "wait.h"

#define CRYSTAL_HZ 32768u
#define SLOW_HZ 8000000u
#define FAST_HZ 48000000u

#define GCLK_CTRL 0x40000c00u
#define GCLK_CTRL_SWRST 1u
#define GCLK_STATUS 0x40000c01u
#define GCLK_STATUS_SYNCBUSY 0x80u
#define GCLK_CLKCTRL 0x40000c02u
#define GCLK_CLKCTRL_GEN(i) ((i) << 8)
#define GCLK_CLKCTRL_CLKEN (1u << 14)
#define GCLK_ID_DFLL_REFERENCE 0u
#define GCLK_ID_WDT 3u
#define GCLK_ID_SERCOM_CORE(i) (0x14u + (i))
#define GCLK_GENCTRL 0x40000c04u
#define GCLK_GENCTRL_SRC_OSCULP32K (3u << 8) /* runs from power-on to power-off */
#define GCLK_GENCTRL_SRC_XOSC32K (5u << 8)
#define GCLK_GENCTRL_SRC_DFLL48M (7u << 8)
#define GCLK_GENCTRL_GENEN (1u << 16)
#define GCLK_GENCTRL_IDC (1u << 17)
#define GCLK_GENDIV 0x40000c08u
#define GCLK_GENDIV_DIV(divider) ((divider) << 8)
#define GENERATOR_OF_CORE 0u
#define GENERATOR_OF_CRYSTAL 1u
#define GENERATOR_OF_WATCHDOG 3u /* can divide by up to POET_WATCHDOG_DIVIDER */

#define PM_APBCMASK 0x40000420u
#define PM_APBCMASK_SERCOM(i) (1u << (2u + (i)))

#define SYSCTRL_PCLKSR 0x4000080cu
#define SYSCTRL_PCLKSR_XOSC32KRDY (1u << 1)
#define SYSCTRL_PCLKSR_DFLLRDY (1u << 4)
#define SYSCTRL_PCLKSR_DFLLLCKF (1u << 6)
#define SYSCTRL_PCLKSR_DFLLLCKC (1u << 7)
#define SYSCTRL_XOSC32K 0x40000814u
#define SYSCTRL_XOSC32K_ENABLE (1u << 1)
#define SYSCTRL_XOSC32K_XTALEN (1u << 2)
#define SYSCTRL_XOSC32K_EN32K (1u << 3)
#define SYSCTRL_XOSC32K_STARTUP_2_S (6u << 8)
#define SYSCTRL_OSC8M 0x40000820u
#define SYSCTRL_OSC8M_PRESC (3u << 8)
#define SYSCTRL_DFLLCTRL 0x40000824u
#define SYSCTRL_DFLLCTRL_ENABLE (1u << 1)
#define SYSCTRL_DFLLCTRL_MODE_CLOSED_LOOP (1u << 2)
#define SYSCTRL_DFLLCTRL_QLDIS (1u << 9)
#define SYSCTRL_DFLLCTRL_WAITLOCK (1u << 11)
#define SYSCTRL_DFLLMUL 0x4000082cu
#define SYSCTRL_DFLLMUL_FSTEP(step) ((step) << 16)
#define SYSCTRL_DFLLMUL_CSTEP(step) ((step) << 26)
/* Half of each register's range, as the data sheet recommends for a fast lock. */
#define COARSE_STEP 31u
#define FINE_STEP 511u

#define NVMCTRL_CTRLB 0x41004004u
#define NVMCTRL_CTRLB_ONE_WAIT_STATE (1u << 1) /* for more than 24 MHz at 3.3 V */
#define NVMCTRL_CTRLB_MANW (1u << 7)           /* erratum 13134: a stray store would write to flash */

static int start_crystal(void)
{
    const uint16_t settings =
        SYSCTRL_XOSC32K_STARTUP_2_S | SYSCTRL_XOSC32K_XTALEN | SYSCTRL_XOSC32K_EN32K;
    poet_write16(SYSCTRL_XOSC32K, settings);
    poet_write16(SYSCTRL_XOSC32K, settings | SYSCTRL_XOSC32K_ENABLE); /* only after the settings: 17.6.3 */
    return poet_wait(SYSCTRL_PCLKSR, SYSCTRL_PCLKSR_XOSC32KRDY, SYSCTRL_PCLKSR_XOSC32KRDY,
                     POET_POLLS_OF_CRYSTAL)
               ? (int)POET_OK
               : POET_SAMD21_ERROR_CRYSTAL;
}

static int await_generators(void)
{
    return poet_wait(GCLK_STATUS, GCLK_STATUS_SYNCBUSY, 0u, POET_POLLS) &&
                   poet_wait(GCLK_CTRL, GCLK_CTRL_SWRST, 0u, POET_POLLS)
               ? (int)POET_OK
               : POET_SAMD21_ERROR_GENERATOR;
}

static int reset_generators(void)
{
    poet_write8(GCLK_CTRL, GCLK_CTRL_SWRST);
    return await_generators();
}

static int set_generator(uint32_t generator, uint32_t divider, uint32_t settings)
{
    poet_write(GCLK_GENDIV, generator | GCLK_GENDIV_DIV(divider));
    POET_TRY(await_generators());
    poet_write(GCLK_GENCTRL, generator | settings | GCLK_GENCTRL_GENEN);
    return await_generators();
}

static int connect(uint32_t clock, uint32_t generator)
{
    POET_TRY(await_generators()); /* an earlier one may have failed */
    poet_write16(GCLK_CLKCTRL,
                 (uint16_t)(clock | GCLK_CLKCTRL_GEN(generator) | GCLK_CLKCTRL_CLKEN));
    return await_generators();
}

static int await_dfll(void)
{
    return poet_wait(SYSCTRL_PCLKSR, SYSCTRL_PCLKSR_DFLLRDY, SYSCTRL_PCLKSR_DFLLRDY, POET_POLLS)
               ? (int)POET_OK
               : POET_SAMD21_ERROR_DFLL;
}

static int start_dfll(void)
{
    const uint16_t closed_loop = SYSCTRL_DFLLCTRL_MODE_CLOSED_LOOP | SYSCTRL_DFLLCTRL_WAITLOCK |
                                 SYSCTRL_DFLLCTRL_QLDIS | SYSCTRL_DFLLCTRL_ENABLE;
    const uint32_t locked = SYSCTRL_PCLKSR_DFLLLCKC | SYSCTRL_PCLKSR_DFLLLCKF;
    /* Erratum 9905: a clock on demand must be requested before anything else is written to it. */
    poet_write16(SYSCTRL_DFLLCTRL, SYSCTRL_DFLLCTRL_ENABLE);
    POET_TRY(await_dfll());
    poet_write(SYSCTRL_DFLLMUL, SYSCTRL_DFLLMUL_CSTEP(COARSE_STEP) | SYSCTRL_DFLLMUL_FSTEP(FINE_STEP) |
                                    (FAST_HZ + CRYSTAL_HZ / 2u) / CRYSTAL_HZ);
    POET_TRY(await_dfll());
    poet_write16(SYSCTRL_DFLLCTRL, closed_loop);
    if (!poet_wait(SYSCTRL_PCLKSR, locked, locked, POET_POLLS)) {
        return POET_SAMD21_ERROR_LOCK;
    }
    return await_dfll();
}

static int start_fast_clock(void)
{
    POET_TRY(start_crystal());
    POET_TRY(reset_generators());
    POET_TRY(set_generator(GENERATOR_OF_CRYSTAL, 0u, GCLK_GENCTRL_SRC_XOSC32K));
    POET_TRY(connect(GCLK_ID_DFLL_REFERENCE, GENERATOR_OF_CRYSTAL));
    POET_TRY(start_dfll());
    return set_generator(GENERATOR_OF_CORE, 0u, GCLK_GENCTRL_SRC_DFLL48M | GCLK_GENCTRL_IDC);
}

int poet_clock_start(uint32_t *hz)
{
    /* 8 MHz instead of 1 MHz after reset: enough for the console's baud rate if the 48 MHz clock fails. */
    poet_write(SYSCTRL_OSC8M, poet_read(SYSCTRL_OSC8M) & ~SYSCTRL_OSC8M_PRESC);
    poet_write(NVMCTRL_CTRLB, NVMCTRL_CTRLB_ONE_WAIT_STATE | NVMCTRL_CTRLB_MANW);
    const int status = start_fast_clock();
    *hz = status == POET_OK ? FAST_HZ : SLOW_HZ;
    return status;
}

int poet_clock_sercom(uint32_t i)
{
    poet_write(PM_APBCMASK, poet_read(PM_APBCMASK) | PM_APBCMASK_SERCOM(i));
    return connect(GCLK_ID_SERCOM_CORE(i), GENERATOR_OF_CORE) == POET_OK;
}

int poet_clock_watchdog(uint32_t divider)
{
    return set_generator(GENERATOR_OF_WATCHDOG, divider, GCLK_GENCTRL_SRC_OSCULP32K) == POET_OK &&
           connect(GCLK_ID_WDT, GENERATOR_OF_WATCHDOG) == POET_OK;
}
