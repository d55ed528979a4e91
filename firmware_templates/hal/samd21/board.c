/* SPDX-License-Identifier: Apache-2.0 */
/* SAM D21: console, tick, reset cause. Registers are those of the SAM D21 data sheet, DS40001882. */
#include "clock.h"
#include "hal.h"
#include "hal_pins.h"
#include "port.h"
#include "reset_cause.h"
#include "sercom.h"
#include "status.h"
#include "systick.h"

/* USART (chapter 26) */
#define CONSOLE 5u /* the SERCOM */
#define CONSOLE_BAUD 115200u
#define USART_CTRLA_TXPO_PAD_2 (1u << 16)
#define USART_CTRLA_DORD_LSB_FIRST (1u << 30)
#define USART_SAMPLES 16u

/* PM (chapter 16) */
#define PM_RCAUSE 0x40000438u

const char poet_hal_tick_unit[] = "cycles";

static struct poet_systick_clock clock;

/* BAUD = 65536 (1 - 16 baud / hz): table 25-2, asynchronous, arithmetic. */
static uint16_t baud_register(uint32_t hz)
{
    return (uint16_t)(65536u - ((uint64_t)CONSOLE_BAUD * USART_SAMPLES * 65536u + hz / 2u) / hz);
}

/* A console that cannot be started stays off, and the training goes on. */
static void start_console(uint32_t hz)
{
    poet_port_give(POET_PIN_CONSOLE_TX, POET_PORT_D, 0u);
    if (poet_sercom_reset(CONSOLE)) {
        poet_write(SERCOM_CTRLA(CONSOLE), SERCOM_CTRLA_MODE_USART | USART_CTRLA_TXPO_PAD_2 |
                                              USART_CTRLA_DORD_LSB_FIRST);
        poet_write(SERCOM_CTRLB(CONSOLE), SERCOM_CTRLB_TXEN);
        poet_write16(SERCOM_BAUD(CONSOLE), baud_register(hz));
        poet_sercom_enable(CONSOLE);
    }
}

int poet_hal_init(void)
{
    uint32_t hz;
    const int status = poet_clock_start(&hz);
    start_console(hz);
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

uint64_t poet_hal_ticks(void)
{
    return poet_systick_cycles(&clock);
}

void poet_systick(void);

void poet_systick(void)
{
    poet_systick_wrapped(&clock);
}

void poet_hal_idle(void)
{
    poet_wait_for_event();
}

const char *poet_hal_reset_cause(void)
{
    static const struct poet_reset_cause causes[] = {
        {1u, "brownout"}, {2u, "brownout"}, {4u, "pin"}, {5u, "watchdog"}, {6u, "software"},
    };
    return poet_name_reset(poet_read8(PM_RCAUSE), causes, sizeof causes / sizeof causes[0]);
}

/* There is nothing to return to, and the console has told everything. */
_Noreturn void poet_hal_exit(int code)
{
    (void)code;
    poet_systick_stop();
    for (;;) {
        poet_hal_idle();
    }
}
