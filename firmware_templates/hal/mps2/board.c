/* SPDX-License-Identifier: Apache-2.0 */
/* The twin: QEMU's mps2-an386, a Cortex-M4F with a CMSDK timer and UART at 25 MHz.
 *
 * Run with -icount shift=0, which makes virtual time advance by 1 ns per instruction: a tick of the
 * timer is 40 ns and so 40 instructions.
 */
#include "for_size.h"

#include "doze.h"
#include "guard.h"
#include "hal.h"
#include "registers.h"
#include "semihosting.h"
#include "status.h"

#define TIMER_CTRL REGISTER(0x40000000u)
#define TIMER_CTRL_ENABLE 1u
#define TIMER_VALUE REGISTER(0x40000004u)
#define TIMER_RELOAD REGISTER(0x40000008u)
#define INSTRUCTIONS_PER_TIMER_TICK 40u

#define UART_DATA REGISTER(0x40004000u)
#define UART_STATE REGISTER(0x40004004u)
#define UART_STATE_TX_FULL 1u
#define UART_STATE_RX_FULL 2u
#define UART_CTRL REGISTER(0x40004008u)
#define UART_CTRL_TX_ENABLE 1u
#define UART_CTRL_RX_ENABLE 2u
#define UART_CTRL_RX_INTERRUPT 8u
#define UART_INTERRUPTS REGISTER(0x4000400cu)
#define UART_INTERRUPTS_RX 2u
#define UART_RX_INTERRUPT 0u
#define UART_BAUDDIV REGISTER(0x40004010u)
#define UART_BAUDDIV_MINIMUM 16u

const char poet_hal_tick_unit[] = "instructions";

static struct {
    uint64_t elapsed;
    uint32_t last;
} timer;

static int listens;

int poet_hal_init(void)
{
    poet_guard_memory();
    UART_BAUDDIV = UART_BAUDDIV_MINIMUM;
    UART_CTRL = UART_CTRL_TX_ENABLE | UART_CTRL_RX_ENABLE | UART_CTRL_RX_INTERRUPT;
    listens = poet_semihosting_listens();
    TIMER_RELOAD = UINT32_MAX;
    TIMER_VALUE = UINT32_MAX;
    TIMER_CTRL = TIMER_CTRL_ENABLE;
    timer.last = TIMER_VALUE;
    return POET_OK;
}

void poet_hal_console_write(const char *text, uint32_t bytes)
{
    for (uint32_t i = 0u; i < bytes; i++) {
        UART_DATA = (uint8_t)text[i];
        /* Waits after the character, not before it: the emulator drops buffered characters at exit. */
        while ((UART_STATE & UART_STATE_TX_FULL) != 0u) {
        }
    }
}

uint32_t poet_hal_console_read(char *text, uint32_t bytes)
{
    uint32_t taken = 0u;
    while (listens && taken < bytes && (UART_STATE & UART_STATE_RX_FULL) != 0u) {
        text[taken++] = (char)UART_DATA;
    }
    return taken;
}

uint64_t poet_hal_listen_ticks(void)
{
    return listens ? POET_LISTEN_FOR_EVER : 0u;
}

/* The timer counts down and wraps after 2^32 ticks, 1.7e11 instructions; this is called before and after each
 * training step, which is far shorter. */
uint64_t poet_hal_ticks(void)
{
    const uint32_t now = TIMER_VALUE;
    timer.elapsed += timer.last - now;
    timer.last = now;
    return timer.elapsed * INSTRUCTIONS_PER_TIMER_TICK;
}

/* On an emulated core that polls, characters arrive slowly. */
void poet_hal_idle(void)
{
    UART_INTERRUPTS = UART_INTERRUPTS_RX;
    if ((UART_STATE & UART_STATE_RX_FULL) == 0u) {
        poet_doze_until(UART_RX_INTERRUPT);
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
