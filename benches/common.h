/* What the benchmark programs share: clocks, figures of a process, quantiles. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* Seconds of the monotonic clock. */
static inline double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline double seconds_of(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; }

/* Seconds of processor time of this process, user and system, all threads. */
static inline double cpu(void) {
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return seconds_of(r.ru_utime) + seconds_of(r.ru_stime);
}

/* A number of /proc/self/status: "VmRSS", "VmHWM" (KiB), "Threads". -1 if it is not there. */
static inline long status_of(const char *key) {
    char line[256];
    size_t length = strlen(key);
    long value = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && value < 0 && fgets(line, sizeof line, f))
        if (!strncmp(line, key, length) && line[length] == ':') value = atol(line + length + 1);
    if (f) fclose(f);
    return value;
}

static inline int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values. 0 for none. */
static inline double quantile(double *values, size_t count, double q) {
    if (!count) return 0;
    qsort(values, count, sizeof *values, by_value);
    size_t at = (size_t)(q * (double)count);
    return values[at < count ? at : count - 1];
}

static inline double *doubles(long count) {
    double *values = calloc((size_t)(count > 0 ? count : 1), sizeof *values);
    if (!values) abort();
    return values;
}

/* Memory of `mib` MiB that is there and stays there. */
static inline void fatten(long mib) {
    if (mib <= 0) return;
    volatile char *memory = malloc((size_t)mib << 20);
    if (!memory) abort();
    for (size_t at = 0; at < (size_t)mib << 20; at += 4096) memory[at] = 1;
}

#endif
