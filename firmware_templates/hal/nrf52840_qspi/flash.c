/* SPDX-License-Identifier: Apache-2.0 */
/* Block storage on flash. Blocks are smaller than erase sectors: a sector that changes is read, changed in RAM,
 * erased and written; if only bits are cleared, it is not erased. */
#include "for_size.h"

#include "flash.h"

#include "hal.h"
#include "nvic.h"
#include "poet.h"
#include "poet_memory.h"
#include "qspi.h"
#include "wait.h"

#include <stdatomic.h>
#include <stdint.h>

#define FLASH_BYTES (8u * 1024u * 1024u)
#define SECTOR_BYTES 4096u
#define PAGE_BYTES 256u
#define BLOCKS (FLASH_BYTES / POET_BLOCK_BYTES)

#define RDID 0x9fu
#define RDID_MX25R6435F 0x1728c2u
#define RDSR 0x05u
#define RDCR 0x15u
#define WRSR 0x01u
#define RDSCUR 0x2bu
#define RELEASE_POWER_DOWN 0xabu
#define STATUS_PROTECTED 0x3cu
#define STATUS_QUAD_ENABLE 0x40u
#define CONFIGURATION_HIGH_PERFORMANCE 0x200u /* in the second of two registers */
#define SECURITY_PROGRAM_FAILED 0x20u
#define SECURITY_ERASE_FAILED 0x40u

/* Waking from deep power-down takes 35 us; a poll takes 4 cycles or more. */
#define WAKING_POLLS 1000u

/* A poll takes 4 cycles or more, so these bounds are 0.5 s or more. A sector is erased within 0.24 s, and a page
 * written within 4 ms. */
#ifndef POET_FLASH_POLLS
#define POET_FLASH_POLLS 8000000u
#endif

#ifdef POET_TRANSFERS
#define QUEUE POET_TRANSFERS
#else
#define QUEUE 1u
#endif

_Static_assert(SECTOR_BYTES % POET_BLOCK_BYTES == 0u, "a sector is whole blocks");

void QSPI_IRQHandler(void);

/* Current activity of the flash. */
enum phase {
    IDLE,
    READING,
    READING_ASIDE,
    FETCHING, /* read a sector before it changes */
    BEGINNING_TO_ERASE,
    ERASING,
    SENDING_PAGE,
    PROGRAMMING,
};

struct request {
    uint32_t address;
    uint32_t bytes;
    uint8_t *target;       /* from flash */
    const uint8_t *source; /* to flash */
    uint32_t kept_from;    /* first address behind the data whose content is kept */
    int status;
};

/* Queue as counts of requests since the start. Interrupts work on the oldest unfinished one. */
static struct request queue[QUEUE];
static volatile uint32_t begun;
static volatile uint32_t ended;
static uint32_t taken_away;
static volatile uint32_t steps; /* number of operations ended */

static volatile enum phase phase;
static int broken;    /* status that blocks all requests until the flash is reopened, or POET_OK */
static uint32_t done; /* bytes done of the oldest request */
static uint32_t piece;
static uint32_t from; /* offset in the sector of the data still to be written */
static uint32_t to;
static _Alignas(4) uint8_t sector[SECTOR_BYTES];

static struct {
    uint32_t first;
    uint32_t end;
} forgotten; /* blocks */

static uint32_t erases;

/* Sends an instruction; returns whether it ended, and its answer. */
static int instruct(uint32_t opcode, uint32_t bytes, enum poet_qspi_flags flags, uint32_t *data)
{
    return poet_qspi_instruct(opcode, bytes, flags, data) ? (int)POET_OK : POET_FLASH_ERROR_NONE;
}

static int ask(uint32_t opcode, uint32_t bytes, enum poet_qspi_flags flags, uint32_t *answer)
{
    *answer = 0u;
    POET_TRY(instruct(opcode, bytes, flags, answer));
    *answer &= UINT32_MAX >> (32u - 8u * bytes);
    return POET_OK;
}

/* After a reset of the chip alone, the flash may be in deep power-down or still busy. */
static int wake_up(void)
{
    uint32_t answer = 0u;
    POET_TRY(instruct(RELEASE_POWER_DOWN, 0u, POET_QSPI_PLAIN, &answer));
    for (uint32_t i = 0u; i < WAKING_POLLS; i++) {
        (void)poet_qspi_answer();
    }
    POET_TRY(ask(RDSCUR, 1u, POET_QSPI_WAIT, &answer));
    POET_TRY(ask(RDID, 3u, POET_QSPI_PLAIN, &answer));
    return answer == RDID_MX25R6435F ? (int)POET_OK : POET_FLASH_ERROR_NONE;
}

/* Enables quad mode, which is non-volatile, and fast mode, which is not. One instruction sets both. */
static int set_mode(void)
{
    uint32_t status;
    uint32_t configuration;
    for (uint32_t attempts = 0u; attempts < 2u; attempts++) {
        POET_TRY(ask(RDSR, 1u, POET_QSPI_PLAIN, &status));
        POET_TRY(ask(RDCR, 2u, POET_QSPI_PLAIN, &configuration));
        if ((status & STATUS_PROTECTED) != 0u) {
            return POET_FLASH_ERROR_PROTECTED;
        }
        if ((status & STATUS_QUAD_ENABLE) != 0u && (configuration & CONFIGURATION_HIGH_PERFORMANCE) != 0u) {
            return POET_OK;
        }
        uint32_t settings = (status | STATUS_QUAD_ENABLE) | (configuration | CONFIGURATION_HIGH_PERFORMANCE) << 8;
        POET_TRY(instruct(WRSR, 3u, POET_QSPI_WRITE, &settings));
        POET_TRY(ask(RDSCUR, 1u, POET_QSPI_WAIT, &settings));
    }
    return POET_FLASH_ERROR_MODE;
}

int poet_hal_storage_open(void)
{
    broken = POET_OK;
    phase = IDLE;
    if (!poet_qspi_start()) {
        return POET_FLASH_ERROR_QSPI;
    }
    POET_TRY(wake_up());
    POET_TRY(set_mode());
    poet_qspi_listen();
    return POET_OK;
}

int poet_hal_storage_blocks(uint32_t *blocks)
{
    *blocks = BLOCKS;
    return POET_OK;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void begin_piece(const struct request *request)
{
    const uint32_t address = request->address + done;
    const uint32_t left = request->bytes - done;
    if (request->target == NULL) {
        piece = least(left, SECTOR_BYTES - address % SECTOR_BYTES);
        phase = FETCHING;
        poet_qspi_read(address - address % SECTOR_BYTES, sector, SECTOR_BYTES);
    } else if ((uintptr_t)(request->target + done) % 4u == 0u) {
        piece = least(left, POET_QSPI_LONGEST);
        phase = READING;
        poet_qspi_read(address, request->target + done, piece);
    } else {
        piece = least(left, SECTOR_BYTES);
        phase = READING_ASIDE;
        poet_qspi_read(address, sector, piece);
    }
}

/* Starts the next operation, or goes idle. */
static void go_on(void)
{
    while (ended != begun) {
        struct request *const request = &queue[ended % QUEUE];
        if (request->status == POET_OK) {
            request->status = broken;
        }
        if (request->status == POET_OK && done < request->bytes) {
            begin_piece(request);
            return;
        }
        done = 0u;
        atomic_signal_fence(memory_order_seq_cst);
        ended++;
    }
    phase = IDLE;
}

static int is_blank(const uint8_t *page)
{
    uint32_t i = 0u;
    while (i < PAGE_BYTES && page[i] == 0xffu) {
        i++;
    }
    return i == PAGE_BYTES;
}

static void end_piece(void)
{
    done += piece;
    go_on();
}

/* Writes page by page: for several at once, the flash would report only the last page's result. */
static void program(uint32_t address)
{
    while (from < to && is_blank(sector + from)) {
        from += PAGE_BYTES;
    }
    if (from == to) {
        end_piece();
    } else {
        phase = SENDING_PAGE;
        poet_qspi_write(address - address % SECTOR_BYTES + from, sector + from, PAGE_BYTES);
    }
}

/* Merges the data into the fetched sector, and decides which flash operations are needed. */
static void change_sector(const struct request *request, uint32_t address)
{
    const uint8_t *const source = request->source + done;
    uint8_t *const target = sector + address % SECTOR_BYTES;
    uint8_t set = 0u;     /* bits */
    uint8_t changed = 0u; /* bits */
    for (uint32_t i = 0u; i < piece; i++) {
        set |= (uint8_t)(source[i] & ~target[i]);
        changed |= source[i] ^ target[i];
        target[i] = source[i];
    }
    if (set == 0u) {
        from = address % SECTOR_BYTES;
        to = changed != 0u ? from + piece : from;
        program(address);
        return;
    }
    const uint32_t behind = address % SECTOR_BYTES + piece;
    const uint32_t kept = least(SECTOR_BYTES, behind + (request->kept_from - (address + piece)));
    memset(sector + behind, 0xff, kept - behind);
    from = 0u;
    to = SECTOR_BYTES;
    erases++;
    phase = BEGINNING_TO_ERASE;
    poet_qspi_erase(address - address % SECTOR_BYTES);
}

static void fail(struct request *request, int status)
{
    request->status = status;
    go_on();
}

static void take_step(void)
{
    struct request *const request = &queue[ended % QUEUE];
    const uint32_t address = request->address + done;
    steps++;
    switch (phase) {
    case IDLE:
        break;
    case READING_ASIDE:
        memcpy(request->target + done, sector, piece);
        end_piece();
        break;
    case READING:
        end_piece();
        break;
    case FETCHING:
        change_sector(request, address);
        break;
    case BEGINNING_TO_ERASE:
        phase = ERASING;
        poet_qspi_await(RDSCUR);
        break;
    case ERASING:
        if ((poet_qspi_answer() & SECURITY_ERASE_FAILED) != 0u) {
            fail(request, POET_FLASH_ERROR_NOT_ERASED);
        } else {
            program(address);
        }
        break;
    case SENDING_PAGE:
        phase = PROGRAMMING;
        poet_qspi_await(RDSCUR);
        break;
    case PROGRAMMING:
        if ((poet_qspi_answer() & SECURITY_PROGRAM_FAILED) != 0u) {
            fail(request, POET_FLASH_ERROR_NOT_PROGRAMMED);
        } else {
            from += PAGE_BYTES;
            program(address);
        }
        break;
    }
}

void QSPI_IRQHandler(void)
{
    if (poet_qspi_take_end()) {
        take_step();
    }
}

/* Handles an end whose interrupt was lost. Returns whether the peripheral is on. */
static int poll(void)
{
    const uint32_t primask = poet_interrupts_off();
    if (poet_qspi_is_ready()) {
        QSPI_IRQHandler();
    }
    poet_interrupts_restore(primask);
    return poet_qspi_is_on();
}

/* Appends to the queue and starts the state machine if it does not run: tested after appending, as it could have seen
 * the request. */
static int begin(struct request request)
{
    request.status = POET_OK;
    queue[begun % QUEUE] = request;
    atomic_signal_fence(memory_order_seq_cst); /* before an interrupt can see the request */
    begun++;
    if (phase == IDLE) {
        go_on();
    }
    return POET_OK;
}

static int is_there(uint32_t block, uint32_t count)
{
    return count <= BLOCKS && block <= BLOCKS - count;
}

int poet_hal_storage_read_begin(uint32_t block, void *ram, uint32_t count)
{
    const struct request request = {
        .address = block * POET_BLOCK_BYTES, .bytes = count * POET_BLOCK_BYTES, .target = ram};
    return is_there(block, count) ? begin(request) : POET_FLASH_ERROR_RANGE;
}

int poet_hal_storage_write_begin(uint32_t block, const void *ram, uint32_t count)
{
    if (!is_there(block, count)) {
        return POET_FLASH_ERROR_RANGE;
    }
    uint32_t kept_from = block + count;
    if (block == forgotten.first && kept_from <= forgotten.end) {
        forgotten.first = kept_from;
        kept_from = forgotten.end;
    }
    const struct request request = {.address = block * POET_BLOCK_BYTES,
                                    .bytes = count * POET_BLOCK_BYTES,
                                    .source = ram,
                                    .kept_from = kept_from * POET_BLOCK_BYTES};
    return begin(request);
}

/* Data that the flash reports as written is durable. */
int poet_hal_storage_flush(void)
{
    return POET_OK;
}

void poet_hal_storage_forget(uint32_t block, uint32_t count)
{
    if (is_there(block, count)) {
        forgotten.first = block;
        forgotten.end = block + count;
    }
}

uint32_t poet_hal_storage_erases(void)
{
    return erases;
}

static int timeout_of(enum phase what)
{
    switch (what) {
    case BEGINNING_TO_ERASE:
    case ERASING:
        return POET_FLASH_ERROR_ERASE;
    case SENDING_PAGE:
    case PROGRAMMING:
        return POET_FLASH_ERROR_PROGRAM;
    default:
        return POET_FLASH_ERROR_READ;
    }
}

/* Waits until an operation ends, and handles a timeout. The last interrupt may have come just before. */
static void await_step(void)
{
    const uint32_t before = steps;
    uint32_t polls = POET_FLASH_POLLS;
    while (poll() && polls > 0u) {
        if (steps != before || ended != taken_away) {
            return;
        }
        polls--;
    }
    poet_qspi_stop(); /* no interrupt comes afterwards */
    if (ended != begun) {
        broken = timeout_of(phase);
        go_on();
    }
}

int poet_hal_storage_wait(void)
{
    if (taken_away == begun) {
        return POET_OK;
    }
    while (ended == taken_away) {
        await_step();
    }
    atomic_signal_fence(memory_order_seq_cst);
    return queue[taken_away++ % QUEUE].status;
}
