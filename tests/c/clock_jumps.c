/*
 * SV-13: put before a host with LD_PRELOAD, this makes the wall clock jump a day forward and a day back with every look. The
 * monotonic clock is left alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

static time_t jump(void) {
    static int looks;
    return looks++ % 2 == 0 ? 86400 : -86400;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int (*real)(clockid_t, struct timespec *) = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, at);
    if (status == 0 && clock == CLOCK_REALTIME) {
        at->tv_sec += jump();
    }
    return status;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    int status = clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return status;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at != NULL) {
        *at = now.tv_sec;
    }
    return now.tv_sec;
}
