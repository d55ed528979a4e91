/* SPDX-License-Identifier: Apache-2.0 */
/* Workers as threads of POSIX. The one that trains is the first; the others are started at the first step, and wait for
 * the next one in between. */
#define _POSIX_C_SOURCE 200809L

#include "workers.h"

#ifdef POET_WORKERS

#include "poet.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int (*list)(uint32_t worker);
    uint32_t started;            /* threads */
    uint32_t round;              /* steps begun */
    uint32_t left;               /* workers that are not through, but for the first */
    int status;                  /* of the step: POET_OK, or how the first to fail did */
    int storage_is_taken;
    uint32_t ended;              /* statements, of all workers */
    uint32_t last[POET_WORKERS]; /* each worker's last statement that has ended */
} work = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void check(int status)
{
    if (status != 0) {
        abort();
    }
}

static void lock(void)
{
    check(pthread_mutex_lock(&work.lock));
}

static void unlock(void)
{
    check(pthread_mutex_unlock(&work.lock));
}

/* All that follows, up to poet_wait_for, is called with the lock. */

static void tell(void)
{
    check(pthread_cond_broadcast(&work.changed));
}

static void fail(int status)
{
    if (work.status >= POET_OK) {
        work.status = status;
    }
    tell();
}

/* How long a worker waits yet. */
struct patience {
    uint32_t ended; /* statements, when it began to wait, or was patient again */
    struct timespec until;
};

static struct patience be_patient(void)
{
    struct patience patience = {.ended = work.ended};
    check(clock_gettime(CLOCK_MONOTONIC, &patience.until));
    patience.until.tv_sec += POET_WORKER_S;
    return patience;
}

/* Waits for a change. POET_ERROR_WORKER, and the step fails: nothing has ended for too long. */
static int wait_patiently(struct patience *patience)
{
    const int status = pthread_cond_timedwait(&work.changed, &work.lock, &patience->until);
    if (work.ended != patience->ended) {
        *patience = be_patient();
    } else if (status == ETIMEDOUT) {
        fail(POET_ERROR_WORKER);
        return POET_ERROR_WORKER;
    } else {
        check(status);
    }
    return POET_OK;
}

/* A clock that nobody sets decides how long a wait takes. */
static void prepare(void)
{
    pthread_condattr_t attributes;
    check(pthread_condattr_init(&attributes));
    check(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
    check(pthread_cond_init(&work.changed, &attributes));
    check(pthread_condattr_destroy(&attributes));
}

int poet_wait_for(uint32_t worker, uint32_t number)
{
    if (POET_WORKERS == 1u) {
        return POET_OK;
    }
    lock();
    struct patience patience = be_patient();
    while (work.status >= POET_OK && work.last[worker] < number) {
        (void)wait_patiently(&patience);
    }
    const int status = work.status >= POET_OK ? POET_OK : POET_ERROR_WORKER;
    unlock();
    return status;
}

int poet_take_storage(void)
{
    if (POET_WORKERS == 1u) {
        return POET_OK;
    }
    lock();
    struct patience patience = be_patient();
    while (work.status >= POET_OK && work.storage_is_taken) {
        (void)wait_patiently(&patience);
    }
    const int status = work.status >= POET_OK ? POET_OK : POET_ERROR_WORKER;
    if (status >= POET_OK) {
        work.storage_is_taken = 1;
    }
    unlock();
    return status;
}

void poet_give_storage(void)
{
    if (POET_WORKERS > 1u) {
        lock();
        work.storage_is_taken = 0;
        tell();
        unlock();
    }
}

void poet_end_statement(uint32_t worker, uint32_t number)
{
    if (worker == 0u) {
        poet_between_ops(); /* what an application has called is called by the thread that trains */
    }
    if (POET_WORKERS > 1u) {
        lock();
        work.last[worker] = number;
        work.ended++;
        tell();
        unlock();
    }
}

void poet_copy(void *target, const void *source, uint32_t bytes, void *source_buffer, void *target_buffer,
               uint32_t buffer_bytes)
{
    uint8_t *to = target;
    const uint8_t *from = source;
    while (bytes > 0u) {
        const uint32_t part = bytes < buffer_bytes ? bytes : buffer_bytes;
        memcpy(source_buffer, from, part);
        memcpy(target_buffer, source_buffer, part);
        memcpy(to, target_buffer, part);
        from += part;
        to += part;
        bytes -= part;
    }
}

static void *run_worker(void *argument)
{
    const uint32_t worker = (uint32_t)(uintptr_t)argument;
    uint32_t seen = 0u;
    for (;;) {
        lock();
        while (work.round == seen) {
            check(pthread_cond_wait(&work.changed, &work.lock));
        }
        seen = work.round;
        unlock();
        const int status = work.list(worker);
        lock();
        if (status < POET_OK) {
            fail(status);
        }
        work.left--;
        work.ended++;
        tell();
        unlock();
    }
    return NULL;
}

/* With the lock. */
static int start(void)
{
    if (work.started == 0u) {
        prepare();
        work.started = 1u;
    }
    for (; work.started < POET_WORKERS; work.started++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run_worker, (void *)(uintptr_t)work.started) != 0) {
            return POET_ERROR_WORKER;
        }
        check(pthread_detach(thread));
    }
    return POET_OK;
}

/* With the lock, which it gives back while the caller goes through the list. */
static int run_step(int (*list)(uint32_t worker))
{
    POET_TRY(start());
    work.list = list;
    work.left = POET_WORKERS - 1u;
    work.status = POET_OK;
    memset(work.last, 0, sizeof work.last);
    work.round++;
    tell();
    unlock();
    const int status = list(0u);
    lock();
    if (status < POET_OK) {
        fail(status);
    }
    struct patience patience = be_patient();
    while (work.left > 0u && work.status != POET_ERROR_WORKER) {
        if (wait_patiently(&patience) < POET_OK) {
            work.status = POET_ERROR_WORKER; /* whatever failed before: one is still there */
        }
    }
    return work.status;
}

int poet_run_workers(int (*list)(uint32_t worker))
{
    if (POET_WORKERS == 1u) {
        return list(0u);
    }
    lock();
    const int status = run_step(list);
    unlock();
    return status;
}

#endif
