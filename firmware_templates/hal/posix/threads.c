/* SPDX-License-Identifier: Apache-2.0 */
/* Thread pool for the parts of a kernel's work: as many threads as POETFW_THREADS, else as in the build: the training
 * thread, and others that wait for work once there is some. */
#define _POSIX_C_SOURCE 200809L

#include "parts.h"
#include "plan.h"

#include <pthread.h>
#include <stdlib.h>

#ifndef POET_THREADS
#define POET_THREADS 1
#endif

enum { MOST_THREADS = 64 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int32_t parts;   /* 0 until it is known */
    int32_t started; /* threads */
    int32_t left;    /* parts not yet done */
    uint32_t round;
    void (*part)(void *context, int32_t index);
    void *context;
} work = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void check(int status)
{
    if (status != 0) {
        abort();
    }
}

static void *run_parts(void *argument)
{
    const int32_t index = (int32_t)(intptr_t)argument;
    uint32_t seen = 0u;
    for (;;) {
        check(pthread_mutex_lock(&work.lock));
        while (work.round == seen) {
            check(pthread_cond_wait(&work.changed, &work.lock));
        }
        seen = work.round;
        check(pthread_mutex_unlock(&work.lock));
        work.part(work.context, index);
        check(pthread_mutex_lock(&work.lock));
        work.left--;
        check(pthread_cond_broadcast(&work.changed));
        check(pthread_mutex_unlock(&work.lock));
    }
    return NULL;
}

int32_t poet_parts(void)
{
#if defined POET_WORKERS && POET_WORKERS > 1
    return 1; /* the pool has a single caller, unlike several workers */
#else
    if (work.parts == 0) {
        const char *const text = getenv("POETFW_THREADS");
        const long given = text != NULL ? strtol(text, NULL, 10) : 0;
        work.parts = given >= 1 && given <= MOST_THREADS ? (int32_t)given : POET_THREADS;
    }
    return work.parts;
#endif
}

/* A round ends when all parts are done, so all threads have seen it before the next. */
void poet_run_parts(void (*part)(void *context, int32_t index), void *context)
{
    const int32_t others = poet_parts() - 1;
    check(pthread_mutex_lock(&work.lock));
    work.part = part;
    work.context = context;
    work.left = others;
    work.round++;
    check(pthread_cond_broadcast(&work.changed));
    check(pthread_mutex_unlock(&work.lock));
    for (; work.started < others; work.started++) {
        pthread_t thread;
        check(pthread_create(&thread, NULL, run_parts, (void *)(intptr_t)(work.started + 1)));
        check(pthread_detach(thread));
    }
    part(context, 0);
    check(pthread_mutex_lock(&work.lock));
    while (work.left > 0) {
        check(pthread_cond_wait(&work.changed, &work.lock));
    }
    check(pthread_mutex_unlock(&work.lock));
}
