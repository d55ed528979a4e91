/* SPDX-License-Identifier: Apache-2.0 */
#include "sd.h"

#include "spi.h"

#include <stddef.h>

#define IDENTIFICATION_HZ 400000u
#define TRANSFER_HZ 8000000u

/* Waits are counted in bytes clocked, of which there are at most 50 per ms during identification and
 * 1,000 per ms afterwards. The specification allows a card 100 ms to begin a read, 500 ms to be busy
 * after a write (SDXC) and 1 s to initialise; a command is answered within 8 bytes. */
#define RESPONSE_BYTES 9u
#define READ_BYTES 100000u
#define BUSY_BYTES 500000u
#define INITIALISE_ROUNDS 3200u /* of two commands, 16 bytes or more: 51,200 bytes */
#define RESET_ROUNDS 16u

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
};

enum response {
    R1_READY = 0x00,
    R1_IDLE = 0x01,
    R1_ILLEGAL_COMMAND = 0x04,
    R1_NONE = 0x80, /* the one bit that is never set in a response */
};

enum token {
    TOKEN_START = 0xfe,
    TOKEN_START_OF_MANY = 0xfc,
    TOKEN_STOP = 0xfd,
    TOKEN_NONE = 0xff,
};

#define DATA_RESPONSE_MASK 0x1fu
#define DATA_RESPONSE_ACCEPTED 0x05u

#define OPERATING_3V 0x100u  /* SEND_IF_COND: 2.7-3.6 V */
#define CHECK_PATTERN 0xaau
#define HIGH_CAPACITY (1u << 30) /* in the OCR and in SD_SEND_OP_COND's argument */

#define CSD_BYTES 16u
#define CSD_STANDARD_CAPACITY 0u
#define CSD_HIGH_CAPACITY 1u

static int block_addressed;

static uint8_t receive(void)
{
    uint8_t byte;
    poet_hal_spi_transfer(NULL, &byte, 1u);
    return byte;
}

static void send(uint8_t byte)
{
    poet_hal_spi_transfer(&byte, NULL, 1u);
}

/* CRC-7 with polynomial x^7 + x^3 + 1, in the upper bits, and the end bit below. */
static uint8_t command_crc(const uint8_t *frame, uint32_t bytes)
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

/* Sends a command and returns R1, of which R1_NONE is set if none came. */
static uint8_t command(enum command number, uint32_t argument)
{
    uint8_t frame[6] = {
        (uint8_t)(0x40u | (uint32_t)number), (uint8_t)(argument >> 24), (uint8_t)(argument >> 16),
        (uint8_t)(argument >> 8),            (uint8_t)argument,         0u,
    };
    frame[5] = command_crc(frame, 5u);
    (void)receive(); /* N_RC: one byte at least between the last response and a command */
    poet_hal_spi_transfer(frame, NULL, sizeof frame);
    if (number == STOP_TRANSMISSION) {
        (void)receive(); /* a stuff byte */
    }
    uint8_t response = R1_NONE;
    for (uint32_t i = 0u; i < RESPONSE_BYTES && (response & R1_NONE) != 0u; i++) {
        response = receive();
    }
    return response;
}

/* What follows R1 in R3 and R7. */
static uint32_t receive_u32(void)
{
    uint8_t bytes[4];
    poet_hal_spi_transfer(NULL, bytes, sizeof bytes);
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static int wait_ready(void)
{
    for (uint32_t i = 0u; i < BUSY_BYTES; i++) {
        if (receive() == 0xffu) {
            return POET_SD_OK;
        }
    }
    return POET_SD_ERROR_TIMEOUT;
}

/* Deselects the card; returns how what was done with it ended. */
static int leave(int status)
{
    poet_hal_spi_select(0);
    (void)receive(); /* the card lets go of the bus one byte later */
    return poet_hal_spi_ok() ? status : POET_SD_ERROR_BUS;
}

static uint8_t application_command(enum command number, uint32_t argument)
{
    (void)command(APP_CMD, 0u);
    return command(number, argument);
}

static int reset(void)
{
    for (uint32_t i = 0u; i < RESET_ROUNDS; i++) {
        if (command(GO_IDLE_STATE, 0u) == R1_IDLE) {
            return POET_SD_OK;
        }
    }
    return POET_SD_ERROR_NO_CARD;
}

static int initialise(void)
{
    int status = reset();
    if (status != POET_SD_OK) {
        return status;
    }
    uint32_t capacity = HIGH_CAPACITY;
    const uint8_t response = command(SEND_IF_COND, OPERATING_3V | CHECK_PATTERN);
    if (response == R1_IDLE) {
        if ((receive_u32() & 0xfffu) != (OPERATING_3V | CHECK_PATTERN)) {
            return POET_SD_ERROR_VOLTAGE;
        }
    } else if ((response & R1_ILLEGAL_COMMAND) != 0u && (response & R1_NONE) == 0u) {
        capacity = 0u; /* a version 1 card: standard capacity, and it must not be asked for more */
    } else {
        return POET_SD_ERROR_NO_CARD;
    }
    uint32_t rounds = 0u;
    while (application_command(SD_SEND_OP_COND, capacity) != R1_READY) {
        if (++rounds == INITIALISE_ROUNDS) {
            return POET_SD_ERROR_NOT_READY;
        }
    }
    /* Some cards, and QEMU's, still call themselves idle here. */
    if ((command(READ_OCR, 0u) & ~(uint32_t)R1_IDLE) != R1_READY) {
        return POET_SD_ERROR_COMMAND;
    }
    block_addressed = (receive_u32() & HIGH_CAPACITY) != 0u;
    if (!block_addressed && command(SET_BLOCKLEN, POET_SD_BLOCK_BYTES) != R1_READY) {
        return POET_SD_ERROR_COMMAND;
    }
    return POET_SD_OK;
}

int poet_sd_open(void)
{
    poet_hal_spi_init();
    poet_hal_spi_clock(IDENTIFICATION_HZ);
    for (uint32_t i = 0u; i < 10u; i++) {
        (void)receive(); /* 74 clocks or more, not selected, wake the card up */
    }
    poet_hal_spi_select(1);
    const int status = leave(initialise());
    if (status == POET_SD_OK) {
        poet_hal_spi_clock(TRANSFER_HZ);
    }
    return status;
}

/* Selects the card and gives it a command that names a block. */
static int begin(enum command number, uint32_t block, uint32_t count)
{
    const uint32_t addressable = block_addressed ? UINT32_MAX : UINT32_MAX / POET_SD_BLOCK_BYTES;
    if (count > addressable || block > addressable - count) {
        return POET_SD_ERROR_RANGE;
    }
    const int status = wait_ready();
    if (status != POET_SD_OK) {
        return status;
    }
    const uint32_t address = block_addressed ? block : block * POET_SD_BLOCK_BYTES;
    return command(number, address) == R1_READY ? POET_SD_OK : POET_SD_ERROR_COMMAND;
}

static int read_data(uint8_t *ram, uint32_t bytes)
{
    uint8_t token = TOKEN_NONE;
    for (uint32_t i = 0u; i < READ_BYTES && token == TOKEN_NONE; i++) {
        token = receive();
    }
    if (token != TOKEN_START) {
        return token == TOKEN_NONE ? POET_SD_ERROR_TIMEOUT : POET_SD_ERROR_READ;
    }
    poet_hal_spi_transfer(NULL, ram, bytes);
    (void)receive(); /* CRC-16: off in SPI mode, and slots carry a CRC of their own */
    (void)receive();
    return POET_SD_OK;
}

/* Reads the card's size from its CSD register (section 5.3). */
static int read_size(uint32_t *blocks)
{
    uint8_t csd[CSD_BYTES];
    if (command(SEND_CSD, 0u) != R1_READY) {
        return POET_SD_ERROR_COMMAND;
    }
    const int status = read_data(csd, sizeof csd);
    if (status != POET_SD_OK) {
        return status;
    }
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

static int write_data(enum token token, const uint8_t *ram)
{
    send((uint8_t)token);
    poet_hal_spi_transfer(ram, NULL, POET_SD_BLOCK_BYTES);
    send(0xffu); /* CRC-16, not looked at */
    send(0xffu);
    if ((receive() & DATA_RESPONSE_MASK) != DATA_RESPONSE_ACCEPTED) {
        return POET_SD_ERROR_WRITE;
    }
    return wait_ready();
}

/* The card's word on what it has programmed: it finds some errors only after it accepted the data. */
static int check_written(void)
{
    const uint8_t response = command(SEND_STATUS, 0u);
    return response == R1_READY && receive() == 0u ? POET_SD_OK : POET_SD_ERROR_WRITE;
}

static int read_selected(uint32_t block, uint8_t *ram, uint32_t count)
{
    int status = begin(count == 1u ? READ_SINGLE_BLOCK : READ_MULTIPLE_BLOCK, block, count);
    if (status != POET_SD_OK) {
        return status;
    }
    for (uint32_t i = 0u; i < count && status == POET_SD_OK; i++) {
        status = read_data(ram + i * POET_SD_BLOCK_BYTES, POET_SD_BLOCK_BYTES);
    }
    if (count > 1u) {
        /* Its response is not looked at: a card may report here that it has read ahead past its
         * end, after all the data asked for arrived intact. */
        (void)command(STOP_TRANSMISSION, 0u);
        const int ready = wait_ready();
        status = status != POET_SD_OK ? status : ready;
    }
    return status;
}

static int write_selected(uint32_t block, const uint8_t *ram, uint32_t count)
{
    int status = begin(count == 1u ? WRITE_BLOCK : WRITE_MULTIPLE_BLOCK, block, count);
    if (status != POET_SD_OK) {
        return status;
    }
    (void)receive(); /* one byte at least between response and data */
    if (count == 1u) {
        status = write_data(TOKEN_START, ram);
        return status == POET_SD_OK ? check_written() : status;
    }
    for (uint32_t i = 0u; i < count && status == POET_SD_OK; i++) {
        status = write_data(TOKEN_START_OF_MANY, ram + i * POET_SD_BLOCK_BYTES);
    }
    if (status == POET_SD_OK) {
        send(TOKEN_STOP);
        (void)receive(); /* busy shows one byte later */
        status = wait_ready();
        return status == POET_SD_OK ? check_written() : status;
    }
    (void)command(STOP_TRANSMISSION, 0u); /* how a failed write of many is ended */
    (void)wait_ready();
    return status;
}

int poet_sd_blocks(uint32_t *blocks)
{
    poet_hal_spi_select(1);
    const int status = wait_ready();
    return leave(status == POET_SD_OK ? read_size(blocks) : status);
}

int poet_sd_read(uint32_t block, uint8_t *ram, uint32_t count)
{
    poet_hal_spi_select(1);
    return leave(read_selected(block, ram, count));
}

int poet_sd_write(uint32_t block, const uint8_t *ram, uint32_t count)
{
    poet_hal_spi_select(1);
    return leave(write_selected(block, ram, count));
}
