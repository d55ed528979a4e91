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
    pthread_mutex_t storage;
    int (*list)(uint32_t worker);
    uint32_t started;            /* threads */
    uint32_t round;              /* steps begun */
    uint32_t left;               /* workers that are not through, but for the first */
    int status;                  /* of the step: POET_OK, or how the first to fail did */
    uint32_t ended;              /* statements, of all workers */
    uint32_t last[POET_WORKERS]; /* each worker's last statement that has ended */
} work = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .storage = PTHREAD_MUTEX_INITIALIZER,
};

static void check(int status)
{
    if (status != 0) {
        abort();
    }
}

/* The caller has the lock. Steps may take longer than any clock of the day keeps still: it waits by the one that does. */
static void prepare(void)
{
    pthread_condattr_t by_clock;
    check(pthread_condattr_init(&by_clock));
    check(pthread_condattr_setclock(&by_clock, CLOCK_MONOTONIC));
    check(pthread_cond_init(&work.changed, &by_clock));
    check(pthread_condattr_destroy(&by_clock));
}

static struct timespec latest(void)
{
    struct timespec at;
    check(clock_gettime(CLOCK_MONOTONIC, &at));
    at.tv_sec += POET_WORKER_S;
    return at;
}

/* The caller has the lock. */
static void fail(int status)
{
    if (work.status >= POET_OK) {
        work.status = status;
    }
    check(pthread_cond_broadcast(&work.changed));
}

/* Waits for a change, with the lock; whether nothing has ended since `ended` statements had, at the latest `until`. */
static int hangs(uint32_t *ended, struct timespec *until)
{
    const int status = pthread_cond_timedwait(&work.changed, &work.lock, until);
    if (work.ended != *ended) {
        *ended = work.ended;
        *until = latest();
        return 0;
    }
    if (status != ETIMEDOUT) {
        check(status);
        return 0;
    }
    return 1;
}

int poet_wait_for(uint32_t worker, uint32_t number)
{
    if (POET_WORKERS == 1u) {
        return POET_OK;
    }
    check(pthread_mutex_lock(&work.lock));
    uint32_t ended = work.ended;
    struct timespec until = latest();
    while (work.status >= POET_OK && work.last[worker] < number) {
        if (hangs(&ended, &until)) {
            fail(POET_ERROR_WORKER);
        }
    }
    const int status = work.status >= POET_OK ? POET_OK : POET_ERROR_WORKER;
    check(pthread_mutex_unlock(&work.lock));
    return status;
}

void poet_end_statement(uint32_t worker, uint32_t number)
{
    if (worker == 0u) {
        poet_between_ops(); /* what an application has called is called by the thread that trains */
    }
    if (POET_WORKERS == 1u) {
        return;
    }
    check(pthread_mutex_lock(&work.lock));
    work.last[worker] = number;
    work.ended++;
    check(pthread_cond_broadcast(&work.changed));
    check(pthread_mutex_unlock(&work.lock));
}

void poet_lock_storage(void)
{
    check(pthread_mutex_lock(&work.storage));
}

void poet_unlock_storage(void)
{
    check(pthread_mutex_unlock(&work.storage));
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
        check(pthread_mutex_lock(&work.lock));
        while (work.round == seen) {
            check(pthread_cond_wait(&work.changed, &work.lock));
        }
        seen = work.round;
        check(pthread_mutex_unlock(&work.lock));
        const int status = work.list(worker);
        check(pthread_mutex_lock(&work.lock));
        if (status < POET_OK) {
            fail(status);
        }
        work.left--;
        work.ended++;
        check(pthread_cond_broadcast(&work.changed));
        check(pthread_mutex_unlock(&work.lock));
    }
    return NULL;
}

/* The caller has the lock. */
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

int poet_run_workers(int (*list)(uint32_t worker))
{
    if (POET_WORKERS == 1u) {
        return list(0u);
    }
    check(pthread_mutex_lock(&work.lock));
    int status = start();
    if (status >= POET_OK) {
        work.list = list;
        work.left = POET_WORKERS - 1u;
        work.status = POET_OK;
        memset(work.last, 0, sizeof work.last);
        work.round++;
        check(pthread_cond_broadcast(&work.changed));
        check(pthread_mutex_unlock(&work.lock));
        status = list(0u);
        check(pthread_mutex_lock(&work.lock));
        if (status < POET_OK) {
            fail(status);
        }
        uint32_t ended = work.ended;
        struct timespec until = latest();
        while (work.left > 0u) {
            if (hangs(&ended, &until)) {
                fail(POET_ERROR_WORKER);
                break;
            }
        }
        status = work.status;
    }
    check(pthread_mutex_unlock(&work.lock));
    return status;
}

#endif
