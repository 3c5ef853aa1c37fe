/*
 * A bare poll(2): the descriptor, and a timer that is the timeout of poll.
 *
 *     cc poll.c fleet.c -lmcp_supervised
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "fleet.h"

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000L + now.tv_nsec / 1000000L;
}

int main(int argc, char **argv) {
    fleet_start(argc, argv);
    struct pollfd watched = {.fd = fleet_fd(), .events = POLLIN};
    long next_tick = now_ms() + FLEET_TICK_MS;
    while (!fleet_is_done()) {
        const long left = next_tick - now_ms();
        /* The timeout is the host's own: the library needs none. */
        if (poll(&watched, 1, left > 0 ? (int)left : 0) < 0 && errno != EINTR) {
            fleet_failed("poll", strerror(errno));
        }
        if (watched.revents & POLLIN) {
            fleet_readable(0);
        }
        if (now_ms() >= next_tick) {
            next_tick += FLEET_TICK_MS;
            fleet_tick();
        }
    }
    return fleet_end("poll");
}
