/* SPDX-License-Identifier: Apache-2.0 */
/* SAM D21: console, tick, reset cause. Registers are those of the SAM D21 data sheet, DS40001882. */
#include "for_size.h"

#include "clock.h"
#include "doze.h"
#include "hal.h"
#include "hal_pins.h"
#include "plan.h"
#include "port.h"
#include "reset_cause.h"
#include "sercom.h"
#include "status.h"
#include "systick.h"
#include "warning.h"

/* USART (chapter 26) */
#define CONSOLE 5u /* number of the SERCOM */
#define USART_CTRLA_TXPO_PAD_2 (1u << 16)
#define USART_CTRLA_RXPO_PAD_3 (3u << 20)
#define USART_CTRLA_DORD_LSB_FIRST (1u << 30)
#define USART_SAMPLES 16u

/* PM (chapter 16) */
#define PM_RCAUSE 0x40000438u

const char poet_hal_tick_unit[] = "cycles";

static struct poet_systick_clock clock;

/* BAUD = 65536 (1 - 16 baud / hz): table 25-2, asynchronous, arithmetic. */
static uint16_t baud_register(uint32_t hz)
{
    return (uint16_t)(65536u - ((uint64_t)POET_CONSOLE_BAUD * USART_SAMPLES * 65536u + hz / 2u) / hz);
}

/* If the console cannot be started, it stays off and training continues. */
static void start_console(uint32_t hz)
{
    poet_port_give(POET_PIN_CONSOLE_TX, POET_PORT_D, 0u);
    poet_port_write(POET_PIN_CONSOLE_RX, 1); /* direction of the pull resistor: up */
    poet_port_give(POET_PIN_CONSOLE_RX, POET_PORT_D, PORT_PINCFG_INEN | PORT_PINCFG_PULLEN);
    if (poet_sercom_reset(CONSOLE)) {
        poet_write(SERCOM_CTRLA(CONSOLE), SERCOM_CTRLA_MODE_USART | USART_CTRLA_TXPO_PAD_2 |
                                              USART_CTRLA_RXPO_PAD_3 | USART_CTRLA_DORD_LSB_FIRST);
        poet_write(SERCOM_CTRLB(CONSOLE), SERCOM_CTRLB_TXEN | SERCOM_CTRLB_RXEN);
        poet_write16(SERCOM_BAUD(CONSOLE), baud_register(hz));
        poet_sercom_enable(CONSOLE);
        poet_write8(SERCOM_INTENSET(CONSOLE), SERCOM_INTFLAG_RXC);
    }
}

int poet_hal_init(void)
{
    uint32_t hz;
    const int status = poet_clock_start(&hz);
    start_console(hz);
    poet_doze_prepare();
    poet_systick_start();
    return status;
}

void poet_hal_console_write(const char *text, uint32_t bytes)
{
    for (uint32_t i = 0u; i < bytes && poet_sercom_is_on(CONSOLE); i++) {
        if (poet_wait(SERCOM_INTFLAG(CONSOLE), SERCOM_INTFLAG_DRE, SERCOM_INTFLAG_DRE, POET_POLLS)) {
            poet_write16(SERCOM_DATA(CONSOLE), (uint8_t)text[i]);
        } else {
            (void)poet_sercom_disable(CONSOLE);
        }
    }
}

static int has_input(void)
{
    return poet_sercom_is_on(CONSOLE) &&
           (poet_read8(SERCOM_INTFLAG(CONSOLE)) & SERCOM_INTFLAG_RXC) != 0u;
}

uint32_t poet_hal_console_read(char *text, uint32_t bytes)
{
    uint32_t taken = 0u;
    while (taken < bytes && has_input()) {
        text[taken++] = (char)poet_read16(SERCOM_DATA(CONSOLE));
    }
    return taken;
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
    poet_doze_clear(SERCOM_INTERRUPT(CONSOLE));
    if (!poet_watchdog_warns() && !has_input()) {
        poet_doze();
    }
}

const char *poet_hal_reset_cause(void)
{
    static const struct poet_reset_cause causes[] = {
        {1u, "brownout"}, {2u, "brownout"}, {4u, "pin"}, {5u, "watchdog"}, {6u, "software"},
    };
    return poet_name_reset(poet_read8(PM_RCAUSE), causes, sizeof causes / sizeof causes[0]);
}

/* Sleeps for ever: there is nothing to return to, and all output has been sent. Nothing can hang here either. */
_Noreturn void poet_hal_exit(int code)
{
    (void)code;
    for (;;) {
        if (poet_watchdog_warns()) {
            poet_hal_watchdog_feed();
        } else {
            poet_doze();
        }
    }
}
