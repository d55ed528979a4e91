/* SPDX-License-Identifier: Apache-2.0 */
/* The card's protocol as coroutines that suspend at each exchange on the bus and continue after it: in the interrupt
 * at its end, or at once if the bus is polled. Nothing else waits.
 */
#include "for_size.h"

#include "sd.h"

#include "plan.h"
#include "poet_memory.h"
#include "spi.h"

#include <stdatomic.h>
#include <stddef.h>

#ifdef POET_TRANSFERS
#define QUEUE POET_TRANSFERS
#else
#define QUEUE 1u
#endif

#define IDENTIFICATION_HZ 400000u
#define TRANSFER_HZ 8000000u
#define ATTEMPTS 3u

/* Timeouts are counted in bytes on the bus, at most 50 per ms during identification and 1,000 per ms afterwards. The
 * specification allows a card 100 ms to begin a read, 500 ms to be busy after a write (SDXC) and 1 s to initialise; a
 * command is answered within 8 bytes. */
#define RESPONSE_BYTES 9u
#define READ_BYTES 100000u
#define BUSY_BYTES 510000u
#define INITIALISE_ROUNDS 1700u /* of two commands, 30 bytes or more: 51,000 bytes */
#define RESET_ROUNDS 16u
#define LEFT_OVER_ROUNDS 17u      /* of 32 bytes: more than a block with its CRC */
#define LEFT_OVER_BUSY_ROUNDS 800u /* of 32 bytes, at 400 kHz: 500 ms */
#define WAKE_BYTES 10u /* 74 clocks or more */

/* Bytes per exchange while waiting for a response or data: few if it comes soon, else many, as each exchange
 * interrupts the core. */
#define FEW_BYTES 8u
#define MANY_BYTES 32u

/* A poll of the bus takes 4 cycles or more, so this bound is 16,384 cycles or more. An SPI byte takes 4,096 cycles at
 * the slowest clocks, 125 kHz at 64 MHz and 94 kHz at 48 MHz. */
#ifndef POET_POLLS_PER_BYTE
#define POET_POLLS_PER_BYTE 4096u
#endif

enum command {
    GO_IDLE_STATE = 0,
    SEND_IF_COND = 8,
    SEND_CSD = 9,
    STOP_TRANSMISSION = 12,
    SEND_STATUS = 13,
    SET_BLOCKLEN = 16,
    READ_SINGLE_BLOCK = 17,
    READ_MULTIPLE_BLOCK = 18,
    WRITE_BLOCK = 24,
    WRITE_MULTIPLE_BLOCK = 25,
    SD_SEND_OP_COND = 41, /* after APP_CMD */
    APP_CMD = 55,
    READ_OCR = 58,
    CRC_ON_OFF = 59,
};

enum response {
    R1_READY = 0x00,
    R1_IDLE = 0x01,
    R1_ILLEGAL_COMMAND = 0x04,
    R1_NONE = 0x80, /* the bit that is never set in a response */
};

/* Second byte of the response to SEND_STATUS. */
enum card_status {
    STATUS_OK = 0x00,
    STATUS_PROTECTED = 0x20,
    STATUS_OUT_OF_RANGE = 0x80,
};

enum token {
    TOKEN_START = 0xfe,
    TOKEN_START_OF_MANY = 0xfc,
    TOKEN_STOP = 0xfd,
    TOKEN_NONE = 0xff,
};

#define DATA_RESPONSE_MASK 0x1fu
#define DATA_RESPONSE_ACCEPTED 0x05u
#define DATA_RESPONSE_CRC 0x0bu

#define OPERATING_3V 0x100u  /* SEND_IF_COND: 2.7-3.6 V */
#define CHECK_PATTERN 0xaau
#define HIGH_CAPACITY (1u << 30) /* in the OCR and in SD_SEND_OP_COND's argument */
#define CRC_ON 1u

#define CSD_BYTES 16u
#define CSD_STANDARD_CAPACITY 0u
#define CSD_HIGH_CAPACITY 1u

enum request_kind { OPEN, READ_SIZE, READ, WRITE };

struct request {
    enum request_kind kind;
    int status; /* status of the finished request */
    uint32_t block;
    uint32_t count;
    uint8_t *target;       /* for a read */
    const uint8_t *source; /* for a write */
};

/* Data whose CRC-16 is computed during the next long exchange, or at a transfer's end. */
struct check {
    const uint8_t *data;
    uint32_t bytes;    /* 0: nothing to do */
    uint32_t expected; /* NO_CRC: not compared */
};
#define NO_CRC UINT32_MAX

/* Coroutines. Each has a place where it continues; state that survives suspension is in `sd`. A coroutine that calls
 * another one ends or suspends with it. */
enum progress { STOPPED, ENDED };
enum routine { COMMAND, WAIT, DATA, PART, ATTEMPT, ROUTINES };

/* The queue is counts of requests since the start. Only the core adds and removes requests, only the card's side
 * finishes them; `running` is set while the latter has work. Members with small values come first: accessing them
 * takes less code. */
static struct {
    uint8_t places[ROUTINES];
    uint8_t r1;
    volatile uint32_t begun;
    volatile uint32_t ended;
    uint32_t taken_away;
    volatile int running;
    volatile uint32_t exchanges; /* number of exchanges ended */
    const uint8_t *tx; /* the next exchange, or the one under way */
    uint8_t *rx;
    volatile uint32_t bytes;
    struct check check;
    uint32_t crc;             /* last result */
    uint32_t next;            /* of `in` */
    uint32_t end;
    uint32_t left;            /* rounds left until a timeout */
    uint32_t rounds;
    uint32_t position;        /* in a transfer, in blocks */
    uint32_t capacity;
    uint32_t value;
    uint32_t attempts;
    int status;
    int is_open;              /* no error since it was opened */
    int block_addressed;
    uint8_t out[FEW_BYTES];
    uint8_t in[MANY_BYTES];   /* received bytes; those from `next` to `end` are unread */
    struct request queue[QUEUE];
} sd;

/* A place is a line number relative to its coroutine's first line: small numbers take less code. Any other value is
 * the beginning. NOINLINE coroutines take less code: jumps are short, and the request's address is in a register. */
#define NOINLINE static __attribute__((noinline))
#define BEGIN(routine)                        \
    enum { FIRST_LINE = __LINE__ };           \
    uint8_t *const place = &sd.places[routine]; \
    switch (*place) {                         \
    default:
#define HERE (__LINE__ - FIRST_LINE)
#define STOP()              \
    do {                    \
        *place = HERE;      \
        return STOPPED;     \
    case HERE:;             \
    } while (0)
#define CALL(progress)                 \
    do {                               \
        *place = HERE;                 \
        __attribute__((fallthrough));  \
    case HERE:                         \
        if ((progress) == STOPPED) {   \
            return STOPPED;            \
        }                              \
    } while (0)
#define RETURN()        \
    do {                \
        *place = 0u;    \
        return ENDED;   \
    } while (0)
#define END()   \
    }           \
    *place = 0u; \
    return ENDED

/* Makes a received byte available. */
#define RECEIVE(bytes)             \
    do {                           \
        if (sd.next == sd.end) {   \
            ask_to_receive(bytes); \
            STOP();                \
        }                          \
    } while (0)

/* The first error counts. */
static void fail(enum poet_sd_status status)
{
    if (sd.status == POET_SD_OK) {
        sd.status = status;
    }
}

static int is_ok(void)
{
    return sd.status == POET_SD_OK;
}

static void ask_to_exchange(const uint8_t *tx, uint8_t *rx, uint32_t bytes)
{
    sd.tx = tx;
    sd.rx = rx;
    sd.bytes = bytes;
}

static void ask_to_receive(uint32_t bytes)
{
    ask_to_exchange(NULL, sd.in, bytes);
    sd.next = 0u;
    sd.end = bytes;
}

static uint8_t take(void)
{
    return sd.in[sd.next++];
}

static void drop(void)
{
    sd.next = sd.end;
}

/* CRC-7 with polynomial x^7 + x^3 + 1 in the upper bits, end bit in the lowest. */
static uint8_t crc7(const uint8_t *frame, uint32_t bytes)
{
    uint32_t crc = 0u;
    for (uint32_t i = 0u; i < bytes; i++) {
        crc ^= frame[i];
        for (uint32_t bit = 0u; bit < 8u; bit++) {
            crc = (crc & 0x80u) != 0u ? crc << 1 ^ 0x12u : crc << 1;
        }
    }
    return (uint8_t)(crc | 1u);
}

/* CRC-16 with polynomial x^16 + x^12 + x^5 + 1, eight bits at a time. */
static uint32_t crc16(const uint8_t *data, uint32_t bytes)
{
    uint32_t crc = 0u;
    for (uint32_t i = 0u; i < bytes; i++) {
        uint32_t high = crc >> 8 ^ data[i];
        high ^= high >> 4;
        crc = (crc << 8 ^ high ^ high << 5 ^ high << 12) & 0xffffu;
    }
    return crc;
}

static void work_out_crc(void)
{
    if (sd.check.bytes > 0u) {
        sd.crc = crc16(sd.check.data, sd.check.bytes);
        sd.check.bytes = 0u;
        if (sd.check.expected != NO_CRC && sd.check.expected != sd.crc) {
            fail(POET_SD_ERROR_CRC);
        }
    }
}

static void work_out_crc_later(const uint8_t *data, uint32_t bytes, uint32_t expected)
{
    const struct check check = {data, bytes, expected};
    sd.check = check;
}

/* Sends a command and receives R1; R1_NONE is set if there was no response. */
static enum progress command(enum command number, uint32_t argument)
{
    BEGIN(COMMAND)
    sd.out[0] = 0xffu; /* N_RC: at least one byte between a response and the next command */
    sd.out[1] = (uint8_t)(0x40u | (uint32_t)number);
    sd.out[2] = (uint8_t)(argument >> 24);
    sd.out[3] = (uint8_t)(argument >> 16);
    sd.out[4] = (uint8_t)(argument >> 8);
    sd.out[5] = (uint8_t)argument;
    sd.out[6] = crc7(sd.out + 1, 5u);
    drop();
    ask_to_exchange(sd.out, NULL, 7u);
    STOP();
    if (number == STOP_TRANSMISSION) {
        RECEIVE(FEW_BYTES);
        (void)take(); /* a stuff byte */
    }
    sd.left = RESPONSE_BYTES;
    do {
        RECEIVE(FEW_BYTES);
        sd.r1 = take();
    } while ((sd.r1 & R1_NONE) != 0u && --sd.left > 0u);
    END();
}

/* Data after R1 in R3 and R7. */
static enum progress receive_value(void)
{
    BEGIN(WAIT)
    sd.value = 0u;
    for (sd.left = 4u; sd.left > 0u; sd.left--) {
        RECEIVE(FEW_BYTES);
        sd.value = sd.value << 8 | take();
    }
    END();
}

/* Waits until the data line is high, as the last of several bytes shows. */
static enum progress wait_ready(void)
{
    BEGIN(WAIT)
    for (sd.left = BUSY_BYTES; sd.left > MANY_BYTES; sd.left -= sd.end) {
        RECEIVE(sd.left == BUSY_BYTES ? 2u : MANY_BYTES);
        drop();
        if (sd.in[sd.end - 1u] == 0xffu) {
            RETURN();
        }
    }
    fail(POET_SD_ERROR_BUSY);
    END();
}

/* Deselects the card. */
static enum progress leave(void)
{
    BEGIN(WAIT)
    poet_hal_spi_select(0);
    ask_to_receive(1u); /* the card releases the bus one byte later */
    STOP();
    drop();
    work_out_crc();
    END();
}

/* Ends a transfer that a reset of the core or an error interrupted: receives or sends the rest of a block, which then
 * has a wrong CRC, or waits for one; sends both kinds of stop, and waits until the card is ready. */
static enum progress end_left_over(void)
{
    BEGIN(WAIT)
    sd.out[0] = TOKEN_START;
    ask_to_exchange(sd.out, NULL, 1u);
    STOP();
    for (sd.left = LEFT_OVER_ROUNDS; sd.left > 0u; sd.left--) {
        ask_to_receive(MANY_BYTES);
        STOP();
    }
    CALL(command(STOP_TRANSMISSION, 0u));
    sd.out[0] = 0xffu;
    sd.out[1] = TOKEN_STOP;
    ask_to_exchange(sd.out, NULL, 2u);
    STOP();
    sd.left = LEFT_OVER_BUSY_ROUNDS;
    do {
        ask_to_receive(MANY_BYTES);
        STOP();
    } while (sd.in[MANY_BYTES - 1u] != 0xffu && --sd.left > 0u);
    END();
}

static enum progress reset(void)
{
    BEGIN(DATA)
    if (sd.attempts > 0u) {
        CALL(end_left_over());
    }
    for (sd.rounds = 0u; sd.rounds < RESET_ROUNDS; sd.rounds++) {
        CALL(command(GO_IDLE_STATE, 0u));
        if (sd.r1 == R1_IDLE) {
            RETURN();
        }
    }
    /* A data line held low reads as ready. */
    fail(sd.r1 == R1_READY ? POET_SD_ERROR_BUSY : POET_SD_ERROR_NO_CARD);
    END();
}

NOINLINE enum progress identify(void)
{
    BEGIN(PART)
    CALL(reset());
    if (!is_ok()) {
        RETURN();
    }
    CALL(command(SEND_IF_COND, OPERATING_3V | CHECK_PATTERN));
    sd.capacity = HIGH_CAPACITY;
    if (sd.r1 == R1_IDLE) {
        CALL(receive_value());
        if ((sd.value & 0xfffu) != (OPERATING_3V | CHECK_PATTERN)) {
            fail(POET_SD_ERROR_VOLTAGE);
            RETURN();
        }
    } else if ((sd.r1 & R1_ILLEGAL_COMMAND) != 0u && (sd.r1 & R1_NONE) == 0u) {
        sd.capacity = 0u; /* a version 1 card has standard capacity; HCS must not be set */
    } else {
        fail(POET_SD_ERROR_NO_CARD);
        RETURN();
    }
    sd.rounds = 0u;
    do {
        if (sd.rounds++ == INITIALISE_ROUNDS) {
            fail(POET_SD_ERROR_NOT_READY);
            RETURN();
        }
        CALL(command(APP_CMD, 0u));
        CALL(command(SD_SEND_OP_COND, sd.capacity));
    } while (sd.r1 != R1_READY);
    /* Some cards, and QEMU's, still report the idle state here. */
    CALL(command(READ_OCR, 0u));
    if ((sd.r1 & ~(uint32_t)R1_IDLE) != R1_READY) {
        fail(POET_SD_ERROR_COMMAND);
        RETURN();
    }
    CALL(receive_value());
    sd.block_addressed = (sd.value & HIGH_CAPACITY) != 0u;
    CALL(command(CRC_ON_OFF, CRC_ON));
    if (sd.r1 != R1_READY) {
        fail(POET_SD_ERROR_COMMAND);
        RETURN();
    }
    if (!sd.block_addressed) {
        CALL(command(SET_BLOCKLEN, POET_SD_BLOCK_BYTES));
        if (sd.r1 != R1_READY) {
            fail(POET_SD_ERROR_COMMAND);
        }
    }
    END();
}

/* Receives the data of a block or a register. */
static enum progress receive_data(uint8_t *target, uint32_t bytes)
{
    BEGIN(DATA)
    sd.left = READ_BYTES;
    do {
        RECEIVE(MANY_BYTES);
        sd.value = take();
    } while (sd.value == TOKEN_NONE && --sd.left > 0u);
    if (sd.value != TOKEN_START) {
        fail(sd.value == TOKEN_NONE ? POET_SD_ERROR_TIMEOUT : POET_SD_ERROR_READ);
        RETURN();
    }
    for (sd.left = 0u; sd.left < bytes && sd.next != sd.end; sd.left++) {
        target[sd.left] = take(); /* received along with the token */
    }
    if (sd.left < bytes) {
        ask_to_exchange(NULL, target + sd.left, bytes - sd.left);
        STOP();
    }
    /* Only the CRC: QEMU's card loses count if the next block is stopped after it has begun. */
    RECEIVE(2u);
    sd.value = (uint32_t)take() << 8;
    RECEIVE(1u);
    sd.value |= take();
    work_out_crc_later(target, bytes, sd.value);
    END();
}

static enum progress send_data(enum token token, const uint8_t *source)
{
    BEGIN(DATA)
    sd.out[0] = 0xffu; /* at least one byte between response and data */
    sd.out[1] = (uint8_t)token;
    ask_to_exchange(sd.out, NULL, 2u);
    STOP();
    work_out_crc_later(source, POET_SD_BLOCK_BYTES, NO_CRC);
    ask_to_exchange(source, NULL, POET_SD_BLOCK_BYTES);
    STOP();
    memset(sd.out, 0xff, sizeof sd.out);
    sd.out[0] = (uint8_t)(sd.crc >> 8);
    sd.out[1] = (uint8_t)sd.crc;
    ask_to_exchange(sd.out, sd.in, sizeof sd.out);
    STOP();
    sd.next = 2u;
    sd.end = sizeof sd.out;
    sd.value = take() & DATA_RESPONSE_MASK;
    if (sd.value != DATA_RESPONSE_ACCEPTED) {
        fail(sd.value == DATA_RESPONSE_CRC ? POET_SD_ERROR_CRC : POET_SD_ERROR_WRITE);
        RETURN();
    }
    CALL(wait_ready());
    END();
}

/* Asks for the result of programming: some errors occur only after the data was accepted, and it gives the reason of
 * a refusal. */
static enum progress check_written(void)
{
    BEGIN(DATA)
    CALL(command(SEND_STATUS, 0u));
    RECEIVE(FEW_BYTES);
    sd.value = take();
    if (sd.r1 != R1_READY) {
        fail(POET_SD_ERROR_WRITE);
    } else if ((sd.value & STATUS_PROTECTED) != 0u) {
        sd.status = POET_SD_ERROR_PROTECTED;
    } else if ((sd.value & STATUS_OUT_OF_RANGE) != 0u) {
        sd.status = POET_SD_ERROR_RANGE;
    } else if (sd.value != STATUS_OK) {
        fail(POET_SD_ERROR_WRITE);
    }
    END();
}

static enum progress receive_blocks(const struct request *request)
{
    BEGIN(PART)
    for (sd.position = 0u; sd.position < request->count && is_ok(); sd.position++) {
        CALL(receive_data(request->target + sd.position * POET_SD_BLOCK_BYTES, POET_SD_BLOCK_BYTES));
    }
    if (request->count > 1u) {
        /* The response is ignored: a card may report here that it has read ahead past its end, although all requested
         * data arrived intact. */
        CALL(command(STOP_TRANSMISSION, 0u));
        CALL(wait_ready());
    }
    END();
}

static enum progress send_blocks(const struct request *request)
{
    BEGIN(PART)
    for (sd.position = 0u; sd.position < request->count && is_ok(); sd.position++) {
        CALL(send_data(request->count == 1u ? TOKEN_START : TOKEN_START_OF_MANY,
                       request->source + sd.position * POET_SD_BLOCK_BYTES));
    }
    if (request->count > 1u) {
        if (is_ok()) {
            sd.out[0] = 0xffu;
            sd.out[1] = TOKEN_STOP;
            sd.out[2] = 0xffu; /* the busy state shows one byte later */
            ask_to_exchange(sd.out, NULL, 3u);
            STOP();
            drop();
        } else {
            CALL(command(STOP_TRANSMISSION, 0u)); /* ends a failed multiple-block write */
        }
        CALL(wait_ready());
    }
    if (sd.status != POET_SD_ERROR_BUSY) {
        CALL(check_written());
    }
    END();
}

static enum command first_command(const struct request *request)
{
    switch (request->kind) {
    case READ:
        return request->count == 1u ? READ_SINGLE_BLOCK : READ_MULTIPLE_BLOCK;
    case WRITE:
        return request->count == 1u ? WRITE_BLOCK : WRITE_MULTIPLE_BLOCK;
    default:
        return SEND_CSD;
    }
}

static enum progress move(const struct request *request)
{
    switch (request->kind) {
    case READ:
        return receive_blocks(request);
    case WRITE:
        return send_blocks(request);
    default:
        return receive_data(request->target, CSD_BYTES);
    }
}

NOINLINE enum progress attempt(const struct request *request)
{
    BEGIN(ATTEMPT)
    if (request->kind == OPEN || !sd.is_open) {
        poet_hal_spi_init();
        poet_hal_spi_clock(IDENTIFICATION_HZ);
        ask_to_receive(WAKE_BYTES);
        STOP();
        poet_hal_spi_select(1);
        CALL(identify());
        CALL(leave());
        if (is_ok()) {
            poet_hal_spi_clock(TRANSFER_HZ);
        }
    }
    if (request->kind != OPEN && is_ok()) {
        poet_hal_spi_select(1);
        drop();
        CALL(wait_ready());
        if (is_ok()) {
            CALL(command(first_command(request),
                         sd.block_addressed ? request->block : request->block * POET_SD_BLOCK_BYTES));
            if (sd.r1 == R1_READY) {
                CALL(move(request));
            } else {
                fail(POET_SD_ERROR_COMMAND);
            }
        }
        CALL(leave());
    }
    END();
}

/* Result of an attempt: the request is finished, or repeated. Returns whether there is more to do. */
static int settle(void)
{
    sd.is_open = is_ok();
    if (is_ok() || ++sd.attempts == ATTEMPTS) {
        sd.queue[sd.ended % QUEUE].status = sd.status;
        sd.attempts = 0u;
        atomic_signal_fence(memory_order_seq_cst);
        sd.ended++;
    }
    sd.status = POET_SD_OK;
    sd.running = sd.ended != sd.begun;
    return sd.running;
}

/* Aborts an attempt whose exchange does not end. */
static void abandon(void)
{
    memset(sd.places, 0, sizeof sd.places);
    sd.check.bytes = 0u;
    sd.status = POET_SD_ERROR_BUS;
}

/* Continues until the bus has bytes to exchange, or there is nothing left to do. */
static void proceed(void)
{
    int is_over;
    do {
        while (sd.status == POET_SD_ERROR_BUS || attempt(&sd.queue[sd.ended % QUEUE]) == ENDED) {
            if (!settle()) {
                return;
            }
        }
        const int is_long = sd.bytes > MANY_BYTES;
        is_over = poet_hal_spi_begin(sd.tx, sd.rx, sd.bytes);
        if (is_long) { /* so this is not the first exchange, which is not started in an interrupt */
            work_out_crc();
        }
        if (is_over && !poet_hal_spi_ok()) {
            abandon();
        }
    } while (is_over);
}

void poet_sd_exchanged(void)
{
    if (sd.running) {
        sd.exchanges++;
        if (!poet_hal_spi_ok()) {
            abandon();
        }
        proceed();
    }
}

/* Appends to the queue and starts the state machine if it does not run: tested after appending, as it could have seen
 * the request. */
static void begin(const struct request *request)
{
    sd.queue[sd.begun % QUEUE] = *request;
    atomic_signal_fence(memory_order_seq_cst); /* before an interrupt can see the request */
    sd.begun++;
    if (!sd.running) {
        sd.running = 1;
        proceed();
    }
}

/* Waits until an exchange ends, and handles a timeout. */
static void await_exchange(void)
{
    const uint32_t before = sd.exchanges;
    uint32_t polls = sd.bytes * POET_POLLS_PER_BYTE;
    while (sd.running && sd.exchanges == before) {
        if (polls-- == 0u || !poet_hal_spi_ok()) {
            poet_hal_spi_init(); /* no interrupt comes afterwards */
            if (sd.running) {
                abandon();
                proceed();
            }
            return;
        }
    }
}

int poet_sd_wait(void)
{
    if (sd.taken_away == sd.begun) {
        return POET_SD_OK;
    }
    while (sd.ended == sd.taken_away) {
        await_exchange();
    }
    atomic_signal_fence(memory_order_seq_cst);
    return sd.queue[sd.taken_away++ % QUEUE].status;
}

int poet_sd_open(void)
{
    const struct request request = {.kind = OPEN};
    begin(&request);
    return poet_sd_wait();
}

/* The card's size, from its CSD register (section 5.3). */
static int get_size(const uint8_t *csd, uint32_t *blocks)
{
    const uint32_t structure = (uint32_t)csd[0] >> 6;
    if (structure == CSD_HIGH_CAPACITY) {
        const uint32_t c_size = (csd[7] & 0x3fu) << 16 | (uint32_t)csd[8] << 8 | csd[9];
        *blocks = (c_size + 1u) << 10;
        return POET_SD_OK;
    }
    const uint32_t block_log2 = csd[5] & 0xfu; /* 9 to 11: 512 to 2,048 bytes */
    if (structure != CSD_STANDARD_CAPACITY || block_log2 < 9u || block_log2 > 11u) {
        return POET_SD_ERROR_SIZE;
    }
    const uint32_t c_size = (csd[6] & 3u) << 10 | (uint32_t)csd[7] << 2 | (uint32_t)csd[8] >> 6;
    const uint32_t c_size_mult = (csd[9] & 3u) << 1 | (uint32_t)csd[10] >> 7;
    *blocks = (c_size + 1u) << (c_size_mult + 2u + block_log2 - 9u);
    return POET_SD_OK;
}

int poet_sd_blocks(uint32_t *blocks)
{
    uint8_t csd[CSD_BYTES];
    const struct request request = {.kind = READ_SIZE, .target = csd};
    begin(&request);
    const int status = poet_sd_wait();
    return status == POET_SD_OK ? get_size(csd, blocks) : status;
}

static int is_addressable(uint32_t block, uint32_t count)
{
    const uint32_t addressable = sd.block_addressed ? UINT32_MAX : UINT32_MAX / POET_SD_BLOCK_BYTES;
    return count <= addressable && block <= addressable - count;
}

static int begin_transfer(enum request_kind kind, uint32_t block, uint32_t count, uint8_t *target,
                          const uint8_t *source)
{
    const struct request request = {
        .kind = kind, .block = block, .count = count, .target = target, .source = source};
    if (!is_addressable(block, count)) {
        return POET_SD_ERROR_RANGE;
    }
    begin(&request);
    return POET_SD_OK;
}

int poet_sd_read_begin(uint32_t block, uint8_t *ram, uint32_t count)
{
    return begin_transfer(READ, block, count, ram, NULL);
}

int poet_sd_write_begin(uint32_t block, const uint8_t *ram, uint32_t count)
{
    return begin_transfer(WRITE, block, count, NULL, ram);
}
