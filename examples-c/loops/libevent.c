/*
 * libevent: the descriptor as an event with EV_READ, beside a timer. With --edge it is an EV_ET event, where the method of the
 * base knows edges.
 *
 *     cc libevent.c fleet.c $(pkg-config --cflags --libs libevent_core) -lmcp_supervised
 */
#include <string.h>

#include <event2/event.h>

#include "fleet.h"

static struct event_base *base;
static int edges;

static void on_tick(evutil_socket_t fd, short what, void *unused) {
    (void)fd, (void)what, (void)unused;
    fleet_tick();
}

static void on_readable(evutil_socket_t fd, short what, void *unused) {
    (void)fd, (void)what, (void)unused;
    fleet_readable(edges);
    if (fleet_is_done()) {
        event_base_loopbreak(base);
    }
}

int main(int argc, char **argv) {
    edges = argc > 1 && strcmp(argv[1], "--edge") == 0;
    base = event_base_new();
    if (base == NULL) {
        fleet_failed("event_base_new", "no memory");
    }
    fleet_start(argc - edges, argv + edges);
    const short way = (short)(EV_READ | EV_PERSIST | (edges ? EV_ET : 0));
    const struct timeval period = {.tv_usec = FLEET_TICK_MS * 1000};
    struct event *watcher = event_new(base, fleet_fd(), way, on_readable, NULL);
    struct event *timer = event_new(base, -1, EV_PERSIST, on_tick, NULL);
    if (watcher == NULL || timer == NULL || event_add(watcher, NULL) < 0 || event_add(timer, &period) < 0) {
        fleet_failed("event_add", "refused");
    }
    if (event_base_dispatch(base) < 0) {
        fleet_failed("event_base_dispatch", "failed");
    }
    event_free(watcher);
    event_free(timer);
    event_base_free(base);
    libevent_global_shutdown();
    return fleet_end(edges ? "libevent, edges" : "libevent");
}
