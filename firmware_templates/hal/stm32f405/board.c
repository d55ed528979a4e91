/* SPDX-License-Identifier: Apache-2.0 */
/* STM32F405: debug access, start, tick, reset cause, end. */
#include "for_size.h"

#include "doze.h"
#include "hal.h"
#include "rcc.h"
#include "reset_cause.h"
#include "systick.h"
#include "usart.h"
#include "wait.h"

/* RM0090, 38.16 */
#define DBGMCU_CR 0xe0042004u
#define DBGMCU_CR_DBG_SLEEP 1u

const char poet_hal_tick_unit[] = "cycles";

static struct poet_systick_clock clock;
static uint32_t reset_flags;

/* A debugger cannot attach to a sleeping core, and this one sleeps at its end: the next upload would fail. */
static void allow_debugging(void)
{
    poet_write(DBGMCU_CR, poet_read(DBGMCU_CR) | DBGMCU_CR_DBG_SLEEP);
}

int poet_hal_init(void)
{
    uint32_t hz;
    allow_debugging();
    reset_flags = poet_read(RCC_CSR);
    poet_write(RCC_CSR, reset_flags | RCC_CSR_RMVF); /* flags survive resets */
    const int status = poet_clock_start(&hz);
    poet_usart_start(hz);
    poet_doze_prepare();
    poet_systick_start();
    return status;
}

uint64_t poet_hal_listen_ticks(void)
{
    return POET_LISTEN_TICKS;
}

uint64_t poet_hal_ticks(void)
{
    return poet_systick_cycles(&clock);
}

void SysTick_Handler(void);

void SysTick_Handler(void)
{
    poet_systick_wrapped(&clock);
}

void poet_hal_idle(void)
{
    poet_doze_clear(POET_USART_INTERRUPT);
    if (!poet_usart_has_input()) {
        poet_doze();
    }
}

/* Every reset also sets the pin's flag, and power-on that of a brownout. */
const char *poet_hal_reset_cause(void)
{
    static const struct poet_reset_cause causes[] = {
        {31u, "low-power"}, {30u, "watchdog"}, {29u, "watchdog"}, {28u, "software"},
        {27u, "power-on"},  {25u, "brownout"}, {26u, "pin"},
    };
    return poet_name_reset(reset_flags, causes, sizeof causes / sizeof causes[0]);
}

/* Sleeps for ever: there is nothing to return to, and all output has been sent. */
_Noreturn void poet_hal_exit(int code)
{
    (void)code;
    for (;;) {
        poet_doze();
    }
}
