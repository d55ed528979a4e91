/* SPDX-License-Identifier: Apache-2.0 */
/* nRF52840: debug access, supply, reset pin, clock, console, cycle counter, reset cause. Registers are those
 * of the nRF52840 Product Specification 1.7 and, for the core, of the ARMv7-M Architecture Reference Manual. */
#include "for_size.h"

#include "doze.h"
#include "gpio.h"
#include "hal.h"
#include "hal_pins.h"
#include "plan.h"
#include "poet_memory.h"
#include "reset_cause.h"
#include "status.h"
#include "systick.h"
#include "wait.h"

/* CLOCK, section 5.4 */
#define CLOCK_TASKS_HFCLKSTART 0x40000000u
#define CLOCK_EVENTS_HFCLKSTARTED 0x40000100u

/* POWER, section 5.3 */
#define POWER_RESETREAS 0x40000400u
#define POWER_DCDCEN 0x40000578u
#define POWER_DCDCEN_ENABLED 1u

/* Debug access (section 4.8). FICR holds the chip's build code, as Nordic's start-up code reads it: from F (5) on,
 * software must allow access after each reset. */
#define APPROTECT_DISABLE 0x40000558u
#define APPROTECT_DISABLE_SW_DISABLE 0x5au
#define FICR_BUILD_CODE 0x10000134u
#define BUILD_CODE_F 5u

/* UICR, section 4.5 */
#define UICR_PSELRESET(i) (0x10001200u + 4u * (i))
#define PSELRESET_COUNT 2u
#define PSELRESET_FIELDS 0x8000003fu /* connection, port and pin */

/* NVMC, section 4.3 */
#define NVMC_READY 0x4001e400u
#define NVMC_CONFIG 0x4001e504u
#define NVMC_CONFIG_READ 0u
#define NVMC_CONFIG_WRITE 1u
#define NVMC_ICACHECNF 0x4001e540u
#define NVMC_ICACHECNF_ENABLE 1u

/* UARTE0, section 6.34 */
#define UARTE_TASKS_STARTRX 0x40002000u
#define UARTE_TASKS_STARTTX 0x40002008u
#define UARTE_TASKS_STOPTX 0x4000200cu
#define UARTE_EVENTS_RXDRDY 0x40002108u
#define UARTE_EVENTS_ENDTX 0x40002120u
#define UARTE_EVENTS_TXSTOPPED 0x40002158u
#define UARTE_SHORTS 0x40002200u
#define UARTE_SHORTS_ENDRX_STARTRX (1u << 5)
#define UARTE_INTENSET 0x40002304u
#define UARTE_INTEN_RXDRDY (1u << 2)
#define UARTE_ENABLE 0x40002500u
#define UARTE_ENABLE_DISABLED 0u
#define UARTE_ENABLE_ENABLED 8u
#define UARTE_PSEL_RTS 0x40002508u
#define UARTE_PSEL_TXD 0x4000250cu
#define UARTE_PSEL_CTS 0x40002510u
#define UARTE_PSEL_RXD 0x40002514u
#define UARTE_BAUDRATE 0x40002524u
#if POET_CONSOLE_BAUD == 1000000u
#define UARTE_BAUDRATE_CODE 0x10000000u
#else
#define UARTE_BAUDRATE_CODE 0x01d60000u /* 115200 */
#endif
#define UARTE_RXD_PTR 0x40002534u
#define UARTE_RXD_MAXCNT 0x40002538u
#define UARTE_TXD_PTR 0x40002544u
#define UARTE_TXD_MAXCNT 0x40002548u
#define UARTE_CONFIG 0x4000256cu
#define UARTE_CONFIG_8N1 0u
#define UARTE_INTERRUPT 2u

/* Reset, DWT and debug control */
#define AIRCR 0xe000ed0cu
#define AIRCR_SYSRESETREQ 0x05fa0004u
#define DEMCR 0xe000edfcu
#define DEMCR_TRCENA (1u << 24)
#define DWT_CTRL 0xe0001000u
#define DWT_CTRL_CYCCNTENA 1u
#define DWT_CYCCNT 0xe0001004u

const char poet_hal_tick_unit[] = "cycles";

static struct {
    uint64_t elapsed;
    uint32_t last;
} counter;

static uint32_t reset_reason;

/* Ring that the receiver fills by itself. Free places hold 0: commands are text. */
#define RING_BYTES 32u
static struct {
    volatile uint8_t bytes[RING_BYTES];
    uint32_t next;
} received;

void SysTick_Handler(void);

/* UICR's protection stays in force: access needs the consent of both. */
static void allow_debugging(void)
{
    if (poet_read(FICR_BUILD_CODE) >= BUILD_CODE_F) {
        poet_write(APPROTECT_DISABLE, APPROTECT_DISABLE_SW_DISABLE);
    }
}

static void start_supply(void)
{
    if (POET_DCDC_INDUCTOR) {
        poet_write(POWER_DCDCEN, POWER_DCDCEN_ENABLED);
    }
}

static __attribute__((noinline)) int reset_pin_is(uint32_t i, uint32_t pin)
{
    return ((poet_read(UICR_PSELRESET(i)) ^ pin) & PSELRESET_FIELDS) == 0u;
}

static int reset_pin_is_set(void)
{
    return reset_pin_is(0u, POET_PIN_RESET) && reset_pin_is(1u, POET_PIN_RESET);
}

/* Needed once per chip: the setting is in flash, where only erased words can be written, and takes effect at the next
 * reset. A setting for another pin is kept. */
static int set_reset_pin(void)
{
    if (reset_pin_is_set()) {
        return POET_OK;
    }
    for (uint32_t i = 0u; i < PSELRESET_COUNT; i++) {
        if (!reset_pin_is(i, POET_PIN_RESET) && !reset_pin_is(i, PSELRESET_FIELDS)) {
            return POET_OK;
        }
    }
    poet_write(NVMC_CONFIG, NVMC_CONFIG_WRITE);
    int ready = poet_wait(NVMC_READY, POET_POLLS);
    for (uint32_t i = 0u; i < PSELRESET_COUNT && ready; i++) {
        if (!reset_pin_is(i, POET_PIN_RESET)) {
            poet_write(UICR_PSELRESET(i), POET_PIN_RESET);
            ready = poet_wait(NVMC_READY, POET_POLLS);
        }
    }
    poet_write(NVMC_CONFIG, NVMC_CONFIG_READ);
    if (!poet_wait(NVMC_READY, POET_POLLS) || !ready || !reset_pin_is_set()) {
        return POET_NRF52840_ERROR_RESET_PIN;
    }
    poet_barrier();
    poet_write(AIRCR, AIRCR_SYSRESETREQ);
    poet_barrier();
    return POET_NRF52840_ERROR_RESET;
}

static int start_clock(void)
{
    /* Baud rates need the crystal: the internal oscillator is off by up to 1.5%. */
    poet_write(CLOCK_EVENTS_HFCLKSTARTED, 0u);
    poet_write(CLOCK_TASKS_HFCLKSTART, 1u);
    poet_write(NVMC_ICACHECNF, NVMC_ICACHECNF_ENABLE);
    if (!poet_wait(CLOCK_EVENTS_HFCLKSTARTED, POET_POLLS)) {
        return POET_NRF52840_ERROR_CRYSTAL;
    }
    return POET_OK;
}

static void start_console(void)
{
    poet_gpio_output_high(POET_PIN_CONSOLE_TX, 0u);
    poet_write(UARTE_PSEL_TXD, POET_PIN_CONSOLE_TX);
    poet_write(GPIO_PIN_CNF(POET_PIN_CONSOLE_RX), GPIO_CNF_INPUT_PULLUP);
    poet_write(UARTE_PSEL_RXD, POET_PIN_CONSOLE_RX);
    poet_write(UARTE_PSEL_RTS, PSEL_DISCONNECTED);
    poet_write(UARTE_PSEL_CTS, PSEL_DISCONNECTED);
    poet_write(UARTE_BAUDRATE, UARTE_BAUDRATE_CODE);
    poet_write(UARTE_CONFIG, UARTE_CONFIG_8N1);
    poet_write(UARTE_ENABLE, UARTE_ENABLE_ENABLED);
    poet_write(UARTE_RXD_PTR, poet_dma_address((const void *)received.bytes));
    poet_write(UARTE_RXD_MAXCNT, RING_BYTES);
    poet_write(UARTE_SHORTS, UARTE_SHORTS_ENDRX_STARTRX);
    poet_write(UARTE_INTENSET, UARTE_INTEN_RXDRDY);
    poet_doze_prepare();
    poet_barrier();
    poet_write(UARTE_TASKS_STARTRX, 1u);
}

static void start_cycle_counter(void)
{
    poet_write(DEMCR, poet_read(DEMCR) | DEMCR_TRCENA);
    poet_write(DWT_CYCCNT, 0u);
    poet_write(DWT_CTRL, poet_read(DWT_CTRL) | DWT_CTRL_CYCCNTENA);
    poet_systick_start();
}

int poet_hal_init(void)
{
    allow_debugging();
    reset_reason = poet_read(POWER_RESETREAS);
    poet_write(POWER_RESETREAS, reset_reason); /* bits survive resets until 1 is written to them */
    start_supply();
    const int reset_pin_status = set_reset_pin();
    const int clock_status = start_clock();
    start_console();
    start_cycle_counter();
    return clock_status != POET_OK ? clock_status : reset_pin_status;
}

/* Waits for the transmitter; a transmitter that hangs is given up, so that training continues. */
static void await_console(uint32_t event)
{
    if (!poet_wait(event, POET_POLLS)) {
        poet_write(UARTE_ENABLE, UARTE_ENABLE_DISABLED);
    }
}

static int console_is_on(void)
{
    return poet_read(UARTE_ENABLE) == UARTE_ENABLE_ENABLED;
}

void poet_hal_console_write(const char *text, uint32_t bytes)
{
    uint8_t line[64]; /* EasyDMA cannot read flash, which holds most texts */
    while (bytes > 0u && console_is_on()) {
        const uint32_t part = bytes < sizeof line ? bytes : (uint32_t)sizeof line;
        memcpy(line, text, part);
        poet_write(UARTE_TXD_PTR, poet_dma_address(line));
        poet_write(UARTE_TXD_MAXCNT, part);
        poet_write(UARTE_EVENTS_ENDTX, 0u);
        poet_barrier();
        poet_write(UARTE_TASKS_STARTTX, 1u);
        await_console(UARTE_EVENTS_ENDTX);
        text += part;
        bytes -= part;
    }
    if (console_is_on()) {
        /* A stopped transmitter releases the crystal and DMA. */
        poet_write(UARTE_EVENTS_TXSTOPPED, 0u);
        poet_write(UARTE_TASKS_STOPTX, 1u);
        await_console(UARTE_EVENTS_TXSTOPPED);
    }
}

/* Takes the oldest character: the first after the last one taken, since all in between have been taken. */
static int take_character(char *character)
{
    for (uint32_t i = 0u; i < RING_BYTES; i++) {
        const uint32_t at = (received.next + i) % RING_BYTES;
        const uint8_t byte = received.bytes[at];
        if (byte != 0u) {
            received.bytes[at] = 0u;
            received.next = at + 1u;
            *character = (char)byte;
            return 1;
        }
    }
    return 0;
}

uint32_t poet_hal_console_read(char *text, uint32_t bytes)
{
    uint32_t taken = 0u;
    while (taken < bytes && take_character(text + taken)) {
        taken++;
    }
    return taken;
}

uint64_t poet_hal_listen_ticks(void)
{
    return POET_LISTEN_TICKS;
}

/* The cycle counter wraps every 67 s; SysTick, every 0.26 s, calls this often enough to count each wrap. */
uint64_t poet_hal_ticks(void)
{
    const uint32_t primask = poet_interrupts_off();
    const uint32_t now = poet_read(DWT_CYCCNT);
    counter.elapsed += now - counter.last;
    counter.last = now;
    const uint64_t elapsed = counter.elapsed;
    poet_interrupts_restore(primask);
    return elapsed;
}

void SysTick_Handler(void)
{
    (void)poet_hal_ticks();
}

/* Stops the processor's clock, and with it the cycle counter. A character whose event is set may not have reached RAM
 * yet, so it is checked again before each sleep. */
void poet_hal_idle(void)
{
    if (poet_read(UARTE_EVENTS_RXDRDY) != 0u) {
        poet_write(UARTE_EVENTS_RXDRDY, 0u);
        poet_doze_clear(UARTE_INTERRUPT);
        poet_barrier();
    } else {
        poet_doze();
    }
}

const char *poet_hal_reset_cause(void)
{
    static const struct poet_reset_cause causes[] = {
        {0u, "pin"},         {1u, "watchdog"},   {2u, "software"}, {3u, "lockup"}, {16u, "gpio-wake"},
        {17u, "lpcomp-wake"}, {18u, "debugger"}, {19u, "nfc-wake"}, {20u, "usb"},
    };
    return poet_name_reset(reset_reason, causes, sizeof causes / sizeof causes[0]);
}

/* Sleeps for ever: there is nothing to return to, and all output has been sent. */
_Noreturn void poet_hal_exit(int code)
{
    (void)code;
    for (;;) {
        poet_doze();
    }
}
