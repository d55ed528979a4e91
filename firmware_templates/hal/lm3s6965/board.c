/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's lm3s6965evb: a machine of 64 KB of RAM with an SD card on its SPI bus, for boards that have less RAM.
 *
 * Run with -icount shift=0, which makes virtual time advance by 1 ns per instruction; a cycle of the
 * processor, at 12.5 MHz after reset, is 80 ns and so 80 instructions.
 *
 * The machine ignores writes to unmapped addresses. So a check at the end shows whether the firmware stayed within
 * the board's RAM: the RAM above must still hold the paint from the start, and the stack, at the bottom of RAM, must
 * not be exhausted.
 */
#include "for_size.h"

#include "console.h"
#include "doze.h"
#include "hal.h"
#include "high_water.h"
#include "plan.h"
#include "registers.h"
#include "semihosting.h"
#include "status.h"
#include "systick.h"
#include "uart.h"

#define UART_INTERRUPT 5u
#define INSTRUCTIONS_PER_CYCLE 80u

#define RAM_LOWER 0x20000000u
#define RAM_UPPER 0x20010000u
#define BOARD_RAM_UPPER (RAM_LOWER + POET_RAM_BYTES)
#define PAINT 0xa5c3e17fu

#define EXIT_FAULT 99

_Static_assert(BOARD_RAM_UPPER <= RAM_UPPER, "the emulated machine has 64 KB of RAM");
_Static_assert(POET_FLASH_BYTES <= 256u << 10, "the emulated machine has 256 KB of flash");

const char poet_hal_tick_unit[] = "instructions";

static struct poet_systick_clock clock;
static int listens;

int poet_hal_init(void)
{
    for (uint32_t address = BOARD_RAM_UPPER; address < RAM_UPPER; address += 4u) {
        REGISTER(address) = PAINT;
    }
    listens = poet_semihosting_listens();
    UART_LINE = UART_LINE_8_BITS_FIFO;
    poet_systick_start();
    return POET_OK;
}

uint32_t poet_hal_console_read(char *text, uint32_t bytes)
{
    uint32_t taken = 0u;
    while (listens && taken < bytes && (UART_FLAGS & UART_FLAGS_RX_EMPTY) == 0u) {
        text[taken++] = (char)UART_DATA;
    }
    return taken;
}

uint64_t poet_hal_listen_ticks(void)
{
    return listens ? POET_LISTEN_FOR_EVER : 0u;
}

uint64_t poet_hal_ticks(void)
{
    return poet_systick_cycles(&clock) * INSTRUCTIONS_PER_CYCLE;
}

void SysTick_Handler(void)
{
    poet_systick_wrapped(&clock);
}

/* On an emulated core that polls, characters arrive slowly. */
void poet_hal_idle(void)
{
    UART_MASK = UART_MASK_RX;
    poet_doze_until(UART_INTERRUPT);
    UART_MASK = 0u;
}

const char *poet_hal_reset_cause(void)
{
    return "power-on";
}

/* First address outside the board's RAM that was visibly written to; 0 if none. */
static uint32_t first_written_outside(void)
{
    const struct poet_stack stack = poet_hal_stack();
    if (poet_stack_high_water() == (uint32_t)(stack.upper - stack.lower)) {
        return RAM_LOWER;
    }
    for (uint32_t address = BOARD_RAM_UPPER; address < RAM_UPPER; address += 4u) {
        if (REGISTER(address) != PAINT) {
            return address;
        }
    }
    return 0u;
}

_Noreturn void poet_hal_exit(int code)
{
    const uint32_t outside = code == 0 ? first_written_outside() : 0u;
    if (outside != 0u) {
        poet_print("@fault cfsr=00000000 address=");
        poet_print_hex(outside);
        poet_print(" pc=00000000\n");
        code = EXIT_FAULT;
    }
    poet_semihosting_exit(code);
}
