/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "qspi.h"

#include "gpio.h"
#include "nvic.h"
#include "qspi_pins.h"
#include "wait.h"

#define QSPI_TASKS_ACTIVATE 0x40029000u
#define QSPI_TASKS_READSTART 0x40029004u
#define QSPI_TASKS_WRITESTART 0x40029008u
#define QSPI_TASKS_ERASESTART 0x4002900cu
#define QSPI_TASKS_DEACTIVATE 0x40029010u
#define QSPI_ANOMALY_122 0x40029054u /* otherwise a disabled QSPI draws current */
#define QSPI_INTENSET 0x40029304u
#define QSPI_INTENSET_READY 1u
#define QSPI_READ_SRC 0x40029504u
#define QSPI_READ_DST 0x40029508u
#define QSPI_READ_CNT 0x4002950cu
#define QSPI_WRITE_DST 0x40029510u
#define QSPI_WRITE_SRC 0x40029514u
#define QSPI_WRITE_CNT 0x40029518u
#define QSPI_ERASE_PTR 0x4002951cu
#define QSPI_ERASE_LEN 0x40029520u
#define QSPI_ERASE_LEN_4KB 0u
#define QSPI_PSEL_SCK 0x40029524u
#define QSPI_PSEL_CSN 0x40029528u
#define QSPI_PSEL_IO(i) (0x40029530u + 4u * (i))
#define QSPI_IFCONFIG0 0x40029544u
#define QSPI_IFCONFIG0_READ4IO_PP4IO (4u | 3u << 3) /* addresses of 24 bits, pages of 256 bytes */
#define QSPI_IFCONFIG1 0x40029600u
#define QSPI_IFCONFIG1_RESERVED 0x00ffff00u
#define QSPI_IFCONFIG1_16_MHZ_MODE0 (1u << 28 | 1u) /* and 62.5 ns between two commands */
#define QSPI_CINSTRCONF 0x40029634u
#define QSPI_CINSTRCONF_LENGTH(bytes) ((1u + (bytes)) << 8)
#define QSPI_CINSTRCONF_IO2_IO3_HIGH (3u << 12) /* neither write-protected nor on hold */
#define QSPI_CINSTRDAT0 0x40029638u

#define QSPI_INTERRUPT 41u
#define STRAYS_MAXIMUM 1000u

static volatile int under_way;
static uint32_t strays; /* interrupts without an event since an operation began */

static void configure_pin(uint32_t pin, uint32_t select)
{
    poet_write(GPIO_PIN_CNF(pin), GPIO_CNF_INPUT_DISCONNECTED | GPIO_CNF_HIGH_DRIVE);
    poet_write(select, pin);
}

void poet_qspi_stop(void)
{
    poet_interrupt_disable(QSPI_INTERRUPT);
    under_way = 0;
    poet_write(QSPI_TASKS_DEACTIVATE, 1u);
    poet_write(QSPI_ANOMALY_122, 1u);
    poet_write(QSPI_ENABLE, QSPI_ENABLE_DISABLED);
}

int poet_qspi_start(void)
{
    static const uint32_t lines[] = {POET_PIN_QSPI_IO0, POET_PIN_QSPI_IO1, POET_PIN_QSPI_IO2, POET_PIN_QSPI_IO3};
    poet_qspi_stop();
    configure_pin(POET_PIN_QSPI_SCK, QSPI_PSEL_SCK);
    configure_pin(POET_PIN_QSPI_CSN, QSPI_PSEL_CSN);
    for (uint32_t i = 0u; i < sizeof lines / sizeof lines[0]; i++) {
        configure_pin(lines[i], QSPI_PSEL_IO(i));
    }
    poet_write(QSPI_IFCONFIG0, QSPI_IFCONFIG0_READ4IO_PP4IO);
    poet_write(QSPI_IFCONFIG1,
               (poet_read(QSPI_IFCONFIG1) & QSPI_IFCONFIG1_RESERVED) | QSPI_IFCONFIG1_16_MHZ_MODE0);
    poet_write(QSPI_ENABLE, QSPI_ENABLE_ENABLED);
    poet_write(QSPI_EVENTS_READY, 0u);
    poet_write(QSPI_TASKS_ACTIVATE, 1u);
    return poet_wait(QSPI_EVENTS_READY, POET_POLLS);
}

static void send(uint32_t opcode, uint32_t bytes, enum poet_qspi_flags flags)
{
    poet_write(QSPI_EVENTS_READY, 0u);
    poet_write(QSPI_CINSTRCONF, opcode | QSPI_CINSTRCONF_LENGTH(bytes) | QSPI_CINSTRCONF_IO2_IO3_HIGH |
                                    (uint32_t)flags);
}

int poet_qspi_instruct(uint32_t opcode, uint32_t bytes, enum poet_qspi_flags flags, uint32_t *data)
{
    poet_write(QSPI_CINSTRDAT0, *data);
    send(opcode, bytes, flags);
    const int ended = poet_wait(QSPI_EVENTS_READY, POET_POLLS);
    *data = poet_read(QSPI_CINSTRDAT0);
    return ended;
}

void poet_qspi_listen(void)
{
    poet_write(QSPI_EVENTS_READY, 0u);
    poet_write(QSPI_INTENSET, QSPI_INTENSET_READY);
    poet_interrupt_enable(QSPI_INTERRUPT);
}

static void begin(uint32_t task)
{
    strays = 0u;
    under_way = 1;
    poet_barrier();
    poet_write(task, 1u);
}

void poet_qspi_read(uint32_t address, uint8_t *ram, uint32_t bytes)
{
    poet_write(QSPI_READ_SRC, address);
    poet_write(QSPI_READ_DST, poet_dma_address(ram));
    poet_write(QSPI_READ_CNT, bytes);
    begin(QSPI_TASKS_READSTART);
}

void poet_qspi_write(uint32_t address, const uint8_t *ram, uint32_t bytes)
{
    poet_write(QSPI_WRITE_DST, address);
    poet_write(QSPI_WRITE_SRC, poet_dma_address(ram));
    poet_write(QSPI_WRITE_CNT, bytes);
    begin(QSPI_TASKS_WRITESTART);
}

void poet_qspi_erase(uint32_t address)
{
    poet_write(QSPI_ERASE_PTR, address);
    poet_write(QSPI_ERASE_LEN, QSPI_ERASE_LEN_4KB);
    begin(QSPI_TASKS_ERASESTART);
}

void poet_qspi_await(uint32_t opcode)
{
    strays = 0u;
    under_way = 1;
    send(opcode, 1u, POET_QSPI_WAIT);
}

uint32_t poet_qspi_answer(void)
{
    return poet_read(QSPI_CINSTRDAT0) & 0xffu;
}

/* The event requests the interrupt until clearing it has reached the peripheral: hence the second read. */
int poet_qspi_take_end(void)
{
    const int ended = poet_read(QSPI_EVENTS_READY) != 0u;
    poet_write(QSPI_EVENTS_READY, 0u);
    (void)poet_read(QSPI_EVENTS_READY);
    poet_barrier();
    if (ended && under_way) {
        under_way = 0;
        return 1;
    }
    if (++strays == STRAYS_MAXIMUM) {
        poet_qspi_stop();
    }
    return 0;
}
