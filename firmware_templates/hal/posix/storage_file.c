/* SPDX-License-Identifier: Apache-2.0 */
/* The thread executes queued transfers in order. It bypasses the system's cache (O_DIRECT) if the file system allows
 * it: paged data then costs no RAM beyond the budget. */
#define _GNU_SOURCE /* O_DIRECT */

#include "storage_file.h"

#include "hal.h"
#include "poet.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#ifdef POET_TRANSFERS
#define QUEUE POET_TRANSFERS
#else
#define QUEUE 1u
#endif

#define BUFFER_BYTES (256u * 1024u)
#define BUFFER_ALIGNMENT 4096u /* largest alignment that devices require */

enum direction { FROM_STORAGE, TO_STORAGE };

struct transfer {
    enum direction direction;
    uint32_t block;
    uint32_t count;
    void *target;       /* from storage */
    const void *source; /* to storage */
    int status;
};

static const char *file_name;
static int file = -1;

/* Queue as counts of transfers since the start, guarded by the lock. Only the worker accesses the buffer and the
 * transfer that it has not counted as done. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static pthread_cond_t less = PTHREAD_COND_INITIALIZER;
static struct transfer queue[QUEUE];
static uint32_t begun;
static uint32_t moved;
static uint32_t waited_for;
static _Alignas(BUFFER_ALIGNMENT) uint8_t buffer[BUFFER_BYTES];

/* Transfers the buffer's first bytes to or from the file. */
static int move_buffer(enum direction direction, off_t offset, size_t bytes)
{
    size_t done = 0u;
    while (done < bytes) {
        const off_t at = offset + (off_t)done;
        const ssize_t now = direction == FROM_STORAGE
                                ? pread(file, buffer + done, bytes - done, at)
                                : pwrite(file, buffer + done, bytes - done, at);
        if (now <= 0) {
            return POET_ERROR_STORAGE;
        }
        done += (size_t)now;
    }
    return POET_OK;
}

static int move(const struct transfer *transfer)
{
    const size_t bytes = (size_t)transfer->count * POET_BLOCK_BYTES;
    const off_t offset = (off_t)transfer->block * (off_t)POET_BLOCK_BYTES;
    for (size_t done = 0u; done < bytes; done += BUFFER_BYTES) {
        const size_t part = bytes - done < BUFFER_BYTES ? bytes - done : BUFFER_BYTES;
        if (transfer->direction == TO_STORAGE) {
            memcpy(buffer, (const uint8_t *)transfer->source + done, part);
        }
        POET_TRY(move_buffer(transfer->direction, offset + (off_t)done, part));
        if (transfer->direction == FROM_STORAGE) {
            memcpy((uint8_t *)transfer->target + done, buffer, part);
        }
    }
    return POET_OK;
}

static void *work(void *unused)
{
    (void)unused;
    (void)pthread_mutex_lock(&lock);
    for (;;) {
        while (moved == begun) {
            (void)pthread_cond_wait(&more, &lock);
        }
        struct transfer *const transfer = &queue[moved % QUEUE];
        (void)pthread_mutex_unlock(&lock);
        transfer->status = move(transfer);
        (void)pthread_mutex_lock(&lock);
        moved++;
        (void)pthread_cond_signal(&less);
    }
    return NULL;
}

/* To bypass the cache, devices may require larger blocks than ours: a trial shows whether they do. */
static int open_direct(void)
{
    file = open(file_name, O_RDWR | O_DIRECT);
    if (file >= 0 && pread(file, buffer, POET_BLOCK_BYTES, (off_t)POET_BLOCK_BYTES) < 0) {
        (void)close(file);
        file = -1;
    }
    return file >= 0;
}

void poet_storage_file(const char *name)
{
    file_name = name;
}

int poet_hal_storage_open(void)
{
    const char *line = "@storage file=direct\n";
    if (!open_direct()) {
        line = "@storage file=cached\n";
        file = open(file_name, O_RDWR);
    }
    pthread_t worker;
    if (file < 0 || pthread_create(&worker, NULL, work, NULL) != 0 || pthread_detach(worker) != 0) {
        return POET_ERROR_STORAGE;
    }
    poet_hal_console_write(line, (uint32_t)strlen(line));
    return POET_OK;
}

int poet_hal_storage_blocks(uint32_t *blocks)
{
    const off_t bytes = lseek(file, 0, SEEK_END); /* of a block device as well */
    if (bytes < 0) {
        return POET_ERROR_STORAGE;
    }
    const off_t whole = bytes / (off_t)POET_BLOCK_BYTES;
    *blocks = whole < UINT32_MAX ? (uint32_t)whole : UINT32_MAX;
    return POET_OK;
}

static int begin(const struct transfer *transfer)
{
    (void)pthread_mutex_lock(&lock);
    queue[begun % QUEUE] = *transfer;
    begun++;
    (void)pthread_cond_signal(&more);
    (void)pthread_mutex_unlock(&lock);
    return POET_OK;
}

int poet_hal_storage_read_begin(uint32_t block, void *ram, uint32_t count)
{
    const struct transfer transfer = {
        .direction = FROM_STORAGE, .block = block, .count = count, .target = ram};
    return begin(&transfer);
}

int poet_hal_storage_write_begin(uint32_t block, const void *ram, uint32_t count)
{
    const struct transfer transfer = {
        .direction = TO_STORAGE, .block = block, .count = count, .source = ram};
    return begin(&transfer);
}

int poet_hal_storage_wait(void)
{
    (void)pthread_mutex_lock(&lock);
    while (moved == waited_for) {
        (void)pthread_cond_wait(&less, &lock);
    }
    const int status = queue[waited_for % QUEUE].status;
    waited_for++;
    (void)pthread_mutex_unlock(&lock);
    return status;
}

int poet_hal_storage_flush(void)
{
    return fdatasync(file) == 0 ? POET_OK : POET_ERROR_STORAGE;
}
