/* SPDX-License-Identifier: Apache-2.0 */
/* nRF52840: clock, console, cycle counter, reset cause. Registers are those of the nRF52840 Product
 * Specification 1.7 and, for the core, of the ARMv7-M Architecture Reference Manual. */
#include "gpio.h"
#include "hal.h"
#include "hal_pins.h"
#include "poet_memory.h"

/* CLOCK, section 5.4 */
#define CLOCK_TASKS_HFCLKSTART REGISTER(0x40000000u)
#define CLOCK_EVENTS_HFCLKSTARTED REGISTER(0x40000100u)

/* POWER, section 5.3 */
#define POWER_RESETREAS REGISTER(0x40000400u)

/* NVMC, section 4.3 */
#define NVMC_ICACHECNF REGISTER(0x4001e540u)
#define NVMC_ICACHECNF_ENABLE 1u

/* UARTE0, section 6.34 */
#define UARTE_TASKS_STARTTX REGISTER(0x40002008u)
#define UARTE_TASKS_STOPTX REGISTER(0x4000200cu)
#define UARTE_EVENTS_ENDTX REGISTER(0x40002120u)
#define UARTE_EVENTS_TXSTOPPED REGISTER(0x40002158u)
#define UARTE_ENABLE REGISTER(0x40002500u)
#define UARTE_ENABLE_ENABLED 8u
#define UARTE_PSEL_RTS REGISTER(0x40002508u)
#define UARTE_PSEL_TXD REGISTER(0x4000250cu)
#define UARTE_PSEL_CTS REGISTER(0x40002510u)
#define UARTE_PSEL_RXD REGISTER(0x40002514u)
#define UARTE_BAUDRATE REGISTER(0x40002524u)
#define UARTE_BAUDRATE_115200 0x01d60000u
#define UARTE_TXD_PTR REGISTER(0x40002544u)
#define UARTE_TXD_MAXCNT REGISTER(0x40002548u)
#define UARTE_CONFIG REGISTER(0x4000256cu)
#define UARTE_CONFIG_8N1 0u

/* DWT, SysTick and debug control */
#define DEMCR REGISTER(0xe000edfcu)
#define DEMCR_TRCENA (1u << 24)
#define DWT_CTRL REGISTER(0xe0001000u)
#define DWT_CTRL_CYCCNTENA 1u
#define DWT_CYCCNT REGISTER(0xe0001004u)
#define SYST_CSR REGISTER(0xe000e010u)
#define SYST_CSR_ENABLE 1u
#define SYST_CSR_TICKINT 2u
#define SYST_CSR_CORE_CLOCK 4u
#define SYST_RVR REGISTER(0xe000e014u)
#define SYST_RVR_MAXIMUM 0x00ffffffu
#define SYST_CVR REGISTER(0xe000e018u)

const char poet_hal_tick_unit[] = "cycles";

static struct {
    uint64_t elapsed;
    uint32_t last;
} counter;

static uint32_t reset_reason;

void poet_systick(void);

static void start_clock(void)
{
    /* The crystal: baud rates need it, and the internal oscillator is 1.5% off. */
    CLOCK_EVENTS_HFCLKSTARTED = 0u;
    CLOCK_TASKS_HFCLKSTART = 1u;
    while (CLOCK_EVENTS_HFCLKSTARTED == 0u) {
    }
    NVMC_ICACHECNF = NVMC_ICACHECNF_ENABLE;
}

static void start_console(void)
{
    poet_gpio_output_high(POET_PIN_CONSOLE_TX, 0u);
    UARTE_PSEL_TXD = POET_PIN_CONSOLE_TX;
    UARTE_PSEL_RXD = PSEL_DISCONNECTED;
    UARTE_PSEL_RTS = PSEL_DISCONNECTED;
    UARTE_PSEL_CTS = PSEL_DISCONNECTED;
    UARTE_BAUDRATE = UARTE_BAUDRATE_115200;
    UARTE_CONFIG = UARTE_CONFIG_8N1;
    UARTE_ENABLE = UARTE_ENABLE_ENABLED;
}

static void start_cycle_counter(void)
{
    DEMCR |= DEMCR_TRCENA;
    DWT_CYCCNT = 0u;
    DWT_CTRL |= DWT_CTRL_CYCCNTENA;
    SYST_RVR = SYST_RVR_MAXIMUM;
    SYST_CVR = 0u;
    SYST_CSR = SYST_CSR_ENABLE | SYST_CSR_TICKINT | SYST_CSR_CORE_CLOCK;
}

void poet_hal_init(void)
{
    reset_reason = POWER_RESETREAS;
    POWER_RESETREAS = reset_reason; /* bits stay set over resets until they are written as 1 */
    start_clock();
    start_console();
    start_cycle_counter();
}

void poet_hal_console_write(const char *text, uint32_t bytes)
{
    uint8_t line[64]; /* EasyDMA cannot read flash, where most texts are */
    while (bytes > 0u) {
        const uint32_t part = bytes < sizeof line ? bytes : (uint32_t)sizeof line;
        memcpy(line, text, part);
        UARTE_TXD_PTR = (uint32_t)line;
        UARTE_TXD_MAXCNT = part;
        UARTE_EVENTS_ENDTX = 0u;
        __asm__ volatile("dsb" ::: "memory");
        UARTE_TASKS_STARTTX = 1u;
        while (UARTE_EVENTS_ENDTX == 0u) {
        }
        text += part;
        bytes -= part;
    }
    /* Stopped, the transmitter lets the crystal and DMA rest. */
    UARTE_EVENTS_TXSTOPPED = 0u;
    UARTE_TASKS_STOPTX = 1u;
    while (UARTE_EVENTS_TXSTOPPED == 0u) {
    }
}

/* The cycle counter wraps every 67 s; SysTick, every 0.26 s, calls this often enough to see each wrap. */
uint64_t poet_hal_ticks(void)
{
    uint32_t primask;
    __asm__ volatile("mrs %0, primask\n\tcpsid i" : "=r"(primask)::"memory");
    const uint32_t now = DWT_CYCCNT;
    counter.elapsed += now - counter.last;
    counter.last = now;
    const uint64_t elapsed = counter.elapsed;
    __asm__ volatile("msr primask, %0" ::"r"(primask) : "memory");
    return elapsed;
}

void poet_systick(void)
{
    (void)poet_hal_ticks();
}

/* Stops the processor's clock, and with it the cycle counter. */
void poet_hal_idle(void)
{
    __asm__ volatile("wfe");
}

const char *poet_hal_reset_cause(void)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } causes[] = {
        {0u, "pin"},         {1u, "watchdog"},   {2u, "software"}, {3u, "lockup"}, {16u, "gpio-wake"},
        {17u, "lpcomp-wake"}, {18u, "debugger"}, {19u, "nfc-wake"}, {20u, "usb"},
    };
    for (uint32_t i = 0u; i < sizeof causes / sizeof causes[0]; i++) {
        if ((reset_reason >> causes[i].bit & 1u) != 0u) {
            return causes[i].name;
        }
    }
    return "power-on";
}

/* There is nothing to return to, and the console has told everything. */
_Noreturn void poet_hal_exit(int code)
{
    (void)code;
    SYST_CSR = 0u;
    for (;;) {
        poet_hal_idle();
    }
}
