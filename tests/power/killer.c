/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a program, ends it as the power would: in the middle of the write to storage.img that KILL_AT says,
 * counted from 0, half of which is then done. KILL_PROGRAM begins the name of the program that is meant. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic long writes;

static int is_storage(int file)
{
    char link[64], path[4096];
    static const char NAME[] = "/storage.img";
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t length = readlink(link, path, sizeof path - 1u);
    if (length < (ssize_t)strlen(NAME)) {
        return 0;
    }
    path[length] = '\0';
    return strcmp(path + length - strlen(NAME), NAME) == 0;
}

/* Whether this write is the one. */
static int is_last(int file)
{
    const char *const at = getenv("KILL_AT");
    const char *const program = getenv("KILL_PROGRAM");
    if (at == NULL || program == NULL ||
        strncmp(program_invocation_short_name, program, strlen(program)) != 0 || !is_storage(file)) {
        return 0;
    }
    return writes++ == atol(at);
}

static void end(void)
{
    (void)kill(getpid(), SIGKILL);
}

ssize_t write(int file, const void *data, size_t bytes)
{
    const int last = is_last(file);
    const ssize_t done = syscall(SYS_write, file, data, last ? bytes / 2u : bytes);
    if (last) {
        end();
    }
    return done;
}

ssize_t pwrite(int file, const void *data, size_t bytes, off_t at)
{
    const int last = is_last(file);
    const ssize_t done = syscall(SYS_pwrite64, file, data, last ? bytes / 2u : bytes, at);
    if (last) {
        end();
    }
    return done;
}

ssize_t pwrite64(int file, const void *data, size_t bytes, off_t at)
{
    return pwrite(file, data, bytes, at);
}
