/*
 * A bare epoll: the descriptor beside a timerfd. With --edge it is watched for edges.
 *
 *     cc epoll.c fleet.c -lmcp_supervised
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "fleet.h"

static int sure(const char *call, int result) {
    if (result < 0) {
        fleet_failed(call, strerror(errno));
    }
    return result;
}

int main(int argc, char **argv) {
    const int edges = argc > 1 && strcmp(argv[1], "--edge") == 0;
    fleet_start(argc - edges, argv + edges);
    const int loop = sure("epoll_create1", epoll_create1(EPOLL_CLOEXEC));
    const int timer = sure("timerfd_create", timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    const struct timespec period = {.tv_nsec = FLEET_TICK_MS * 1000000L};
    const struct itimerspec every = {.it_interval = period, .it_value = period};
    sure("timerfd_settime", timerfd_settime(timer, 0, &every, NULL));
    struct epoll_event wanted = {.events = EPOLLIN, .data.fd = timer};
    sure("epoll_ctl", epoll_ctl(loop, EPOLL_CTL_ADD, timer, &wanted));
    wanted.events = (uint32_t)EPOLLIN | (edges ? (uint32_t)EPOLLET : 0);
    wanted.data.fd = fleet_fd();
    sure("epoll_ctl", epoll_ctl(loop, EPOLL_CTL_ADD, fleet_fd(), &wanted));

    while (!fleet_is_done()) {
        struct epoll_event ready[4];
        const int count = epoll_wait(loop, ready, 4, -1);
        if (count < 0 && errno != EINTR) {
            fleet_failed("epoll_wait", strerror(errno));
        }
        for (int i = 0; i < count; i++) {
            uint64_t times;
            if (ready[i].data.fd != timer) {
                fleet_readable(edges);
            } else if (read(timer, &times, sizeof times) == (ssize_t)sizeof times) {
                fleet_tick();
            }
        }
    }
    close(timer);
    close(loop);
    return fleet_end(edges ? "epoll, edges" : "epoll");
}
