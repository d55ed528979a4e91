/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L

#include "energy.h"

#include "console.h"

#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ZONES 32u
#define PERIOD_NS 100000000
#define NS_PER_S 1000000000u
#define LINE_BYTES 64u

/* A counter in microjoules that wraps at `range`. */
struct zone {
    int file;
    uint64_t range;
    uint64_t last;
};

/* The lock guards all of it once the thread runs. Without a source, nothing is measured. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const char *source;
    struct zone zones[ZONES];
    uint32_t zone_count;
    int millivolts; /* files */
    int milliamperes;
    uint64_t last_uw;
    uint64_t last_ns;
    uint64_t uj;
    uint64_t rest; /* remainder below a microjoule, in microwatts times nanoseconds */
} meter;

static uint64_t now_ns(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static int open_in(const char *folder, const char *name)
{
    char path[512];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && (size_t)length < sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
}

/* First line of an open file, without the line end. */
static int read_line(int file, char *line)
{
    const ssize_t bytes = pread(file, line, LINE_BYTES - 1u, 0);
    if (bytes <= 0) {
        return 0;
    }
    line[bytes] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return 1;
}

static int read_number(int file, uint64_t *value)
{
    char line[LINE_BYTES];
    char *end = line;
    if (!read_line(file, line) || line[0] < '0' || line[0] > '9') {
        return 0;
    }
    *value = strtoull(line, &end, 10);
    return *end == '\0';
}

/* True if the first line of a file in a folder begins with a text. */
static int begins(const char *folder, const char *name, const char *text)
{
    char line[LINE_BYTES];
    const int file = open_in(folder, name);
    const int read = file >= 0 && read_line(file, line);
    if (file >= 0) {
        (void)close(file);
    }
    return read && strncmp(line, text, strlen(text)) == 0;
}

static int open_zone(const char *folder, struct zone *zone)
{
    const int range = open_in(folder, "max_energy_range_uj");
    zone->file = open_in(folder, "energy_uj");
    const int good = range >= 0 && zone->file >= 0 && read_number(range, &zone->range) &&
                     read_number(zone->file, &zone->last);
    if (range >= 0) {
        (void)close(range);
    }
    return good;
}

/* Packages include their cores; DRAM is separate; psys would count everything twice. */
static const char *find_rapl(const glob_t *folders)
{
    for (size_t i = 0u; i < folders->gl_pathc; i++) {
        const char *const folder = folders->gl_pathv[i];
        if (!begins(folder, "name", "package") && !begins(folder, "name", "dram")) {
            continue;
        }
        if (meter.zone_count == ZONES || !open_zone(folder, &meter.zones[meter.zone_count])) {
            return NULL; /* part of the energy would be taken for all of it */
        }
        meter.zone_count++;
    }
    return meter.zone_count > 0u ? "rapl" : NULL;
}

static int read_power(uint64_t *uw)
{
    uint64_t millivolts;
    uint64_t milliamperes;
    if (!read_number(meter.millivolts, &millivolts) ||
        !read_number(meter.milliamperes, &milliamperes)) {
        return 0;
    }
    *uw = millivolts * milliamperes;
    return 1;
}

static const char *find_ina3221(const glob_t *folders)
{
    for (size_t i = 0u; i < folders->gl_pathc; i++) {
        const char *const folder = folders->gl_pathv[i];
        for (int channel = 1; channel <= 3 && begins(folder, "name", "ina3221"); channel++) {
            char label[LINE_BYTES];
            char volts[LINE_BYTES];
            char amperes[LINE_BYTES];
            (void)snprintf(label, sizeof label, "in%d_label", channel);
            (void)snprintf(volts, sizeof volts, "in%d_input", channel);
            (void)snprintf(amperes, sizeof amperes, "curr%d_input", channel);
            if (begins(folder, label, "VDD_IN")) {
                meter.millivolts = open_in(folder, volts);
                meter.milliamperes = open_in(folder, amperes);
                return read_power(&meter.last_uw) ? "ina3221" : NULL;
            }
        }
    }
    return NULL;
}

/* Sources in the folders that match a pattern. */
static const char *find(const char *pattern, const char *(*look_into)(const glob_t *folders))
{
    const char *const other = getenv("POETFW_SYSFS");
    const char *found = NULL;
    char path[512];
    glob_t folders;
    const int length =
        snprintf(path, sizeof path, "%s/class/%s", other != NULL ? other : "/sys", pattern);
    if (length > 0 && (size_t)length < sizeof path && glob(path, 0, NULL, &folders) == 0) {
        found = look_into(&folders);
        globfree(&folders);
    }
    return found;
}

/* Adds the energy since the last call; returns whether it could be read. */
static int measure(void)
{
    for (uint32_t i = 0u; i < meter.zone_count; i++) {
        struct zone *const zone = &meter.zones[i];
        uint64_t now;
        if (!read_number(zone->file, &now)) {
            return 0;
        }
        meter.uj += now >= zone->last ? now - zone->last : zone->range - zone->last + now;
        zone->last = now;
    }
    if (meter.zone_count == 0u) {
        const uint64_t ns = now_ns();
        uint64_t uw;
        if (!read_power(&uw)) {
            return 0;
        }
        meter.rest += (meter.last_uw + uw) / 2u * (ns - meter.last_ns);
        meter.uj += meter.rest / NS_PER_S;
        meter.rest %= NS_PER_S;
        meter.last_uw = uw;
        meter.last_ns = ns;
    }
    return 1;
}

static void measure_locked(void)
{
    (void)pthread_mutex_lock(&lock);
    if (meter.source != NULL && !measure()) {
        meter.source = NULL;
    }
    (void)pthread_mutex_unlock(&lock);
}

static void *watch(void *unused)
{
    const struct timespec period = {0, PERIOD_NS};
    (void)unused;
    for (;;) {
        (void)nanosleep(&period, NULL);
        measure_locked();
    }
    return NULL;
}

void poet_energy_start(void)
{
    pthread_t watcher;
    meter.source = find("powercap/intel-rapl:*", find_rapl);
    if (meter.source == NULL) {
        meter.zone_count = 0u;
        meter.source = find("hwmon/hwmon*", find_ina3221);
    }
    meter.last_ns = now_ns();
    if (meter.source != NULL &&
        (pthread_create(&watcher, NULL, watch, NULL) != 0 || pthread_detach(watcher) != 0)) {
        meter.source = NULL;
    }
}

void poet_energy_report(void)
{
    measure_locked();
    (void)pthread_mutex_lock(&lock);
    if (meter.source != NULL) {
        poet_print("@energy microjoules=");
        poet_print_decimal(meter.uj);
        poet_print(" source=");
        poet_print(meter.source);
        poet_print("\n");
    }
    (void)pthread_mutex_unlock(&lock);
}
