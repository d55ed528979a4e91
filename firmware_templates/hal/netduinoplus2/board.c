/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's netduinoplus2: an STM32F405 with USART and SysTick, but without clock control, SPI and pins.
 *
 * Run with -icount shift=0, which makes virtual time advance by 1 ns per instruction; a cycle of the core is
 * 1000/168 ns and so 125/21 instructions.
 */
#include "for_size.h"

#include "desk.h"
#include "doze.h"
#include "guard.h"
#include "hal.h"
#include "semihosting.h"
#include "status.h"
#include "systick.h"
#include "usart.h"

#define CORE_HZ 168000000u

const char poet_hal_tick_unit[] = "instructions";

static struct poet_systick_clock clock;
static int listens;

int poet_hal_init(void)
{
    poet_guard_memory();
    listens = poet_semihosting_listens();
    poet_usart_start(CORE_HZ / 2u);
    poet_systick_start();
    return POET_OK;
}

uint64_t poet_hal_listen_ticks(void)
{
    return listens ? POET_LISTEN_FOR_EVER : 0u;
}

uint64_t poet_hal_ticks(void)
{
    return poet_systick_cycles(&clock) * 125u / 21u;
}

void SysTick_Handler(void);

void SysTick_Handler(void)
{
    poet_systick_wrapped(&clock);
}

/* On an emulated core that polls, characters arrive slowly. */
void poet_hal_idle(void)
{
    if (!poet_usart_has_input()) {
        poet_doze_until(POET_USART_INTERRUPT);
    }
}

const char *poet_hal_reset_cause(void)
{
    return "power-on";
}

_Noreturn void poet_hal_exit(int code)
{
    poet_semihosting_exit(code);
}
