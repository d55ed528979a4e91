/* SPDX-License-Identifier: Apache-2.0 */
/* This computer. The storage is the file named by the first argument, else by POETFW_STORAGE, else
 * storage.img in the working directory. */
#define _POSIX_C_SOURCE 200809L

#include "hal.h"
#include "poet.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

const char poet_hal_tick_unit[] = "ns";

static const char *file_name;
static int file = -1;
static int last_status = POET_OK;
static uint64_t start_ns;

static uint64_t now_ns(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) {
        abort();
    }
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int poet_hal_init(void)
{
    start_ns = now_ns();
    return POET_OK;
}

void poet_hal_console_write(const char *text, uint32_t bytes)
{
    while (bytes > 0u) {
        const ssize_t written = write(STDOUT_FILENO, text, bytes);
        if (written <= 0) {
            _exit(1); /* nobody listens any more */
        }
        text += written;
        bytes -= (uint32_t)written;
    }
}

uint64_t poet_hal_ticks(void)
{
    return now_ns() - start_ns;
}

int poet_hal_storage_open(void)
{
    file = open(file_name, O_RDWR);
    return file < 0 ? POET_ERROR_STORAGE : POET_OK;
}

int poet_hal_storage_blocks(uint32_t *blocks)
{
    const off_t bytes = lseek(file, 0, SEEK_END); /* of a block device, too */
    if (bytes < 0) {
        return POET_ERROR_STORAGE;
    }
    const off_t whole = bytes / (off_t)POET_BLOCK_BYTES;
    *blocks = whole < UINT32_MAX ? (uint32_t)whole : UINT32_MAX;
    return POET_OK;
}

int poet_hal_storage_read_begin(uint32_t block, void *ram, uint32_t count)
{
    off_t offset = (off_t)block * (off_t)POET_BLOCK_BYTES;
    size_t rest = (size_t)count * POET_BLOCK_BYTES;
    uint8_t *target = ram;
    last_status = POET_OK;
    while (rest > 0u) {
        const ssize_t moved = pread(file, target, rest, offset);
        if (moved <= 0) {
            last_status = POET_ERROR_STORAGE;
            break;
        }
        offset += (off_t)moved;
        target += moved;
        rest -= (size_t)moved;
    }
    return POET_OK;
}

int poet_hal_storage_write_begin(uint32_t block, const void *ram, uint32_t count)
{
    off_t offset = (off_t)block * (off_t)POET_BLOCK_BYTES;
    size_t rest = (size_t)count * POET_BLOCK_BYTES;
    const uint8_t *source = ram;
    last_status = POET_OK;
    while (rest > 0u) {
        const ssize_t moved = pwrite(file, source, rest, offset);
        if (moved <= 0) {
            last_status = POET_ERROR_STORAGE;
            break;
        }
        offset += (off_t)moved;
        source += moved;
        rest -= (size_t)moved;
    }
    return POET_OK;
}

int poet_hal_storage_wait(void)
{
    return last_status;
}

void poet_hal_idle(void)
{
}

const char *poet_hal_reset_cause(void)
{
    return "power-on";
}

/* The operating system's stack grows as it pleases: it is not measured. */
struct poet_stack poet_hal_stack(void)
{
    const struct poet_stack none = {NULL, NULL};
    return none;
}

_Noreturn void poet_hal_exit(int code)
{
    exit(code);
}

int main(int argc, char **argv)
{
    file_name = argc > 1 ? argv[1] : getenv("POETFW_STORAGE");
    if (file_name == NULL) {
        file_name = "storage.img";
    }
    poet_run();
}
