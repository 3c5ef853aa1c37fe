/*
 * libuv: the descriptor in a uv_poll_t, beside a uv_timer_t. libuv looks at levels.
 *
 *     cc uv.c fleet.c $(pkg-config --cflags --libs libuv) -lmcp_supervised
 */
#include <stdio.h>

#include <uv.h>

#include "fleet.h"

static void on_tick(uv_timer_t *timer);
static void on_readable(uv_poll_t *watcher, int status, int events);

static uv_poll_t watcher;
static uv_timer_t timer;

static void sure(const char *call, int status) {
    if (status < 0) {
        fleet_failed(call, uv_strerror(status));
    }
}

static void leave_when_done(void) {
    if (fleet_is_done() && !uv_is_closing((uv_handle_t *)&watcher)) {
        /* Closed watchers leave the loop, and without any uv_run comes back. */
        uv_close((uv_handle_t *)&watcher, NULL);
        uv_close((uv_handle_t *)&timer, NULL);
    }
}

static void on_tick(uv_timer_t *unused) {
    (void)unused;
    fleet_tick();
}

static void on_readable(uv_poll_t *unused, int status, int events) {
    (void)unused, (void)events;
    sure("uv_poll", status);
    fleet_readable(0);
    leave_when_done();
}

int main(int argc, char **argv) {
    uv_loop_t *loop = uv_default_loop();
    fleet_start(argc, argv);
    sure("uv_poll_init", uv_poll_init(loop, &watcher, fleet_fd()));
    sure("uv_poll_start", uv_poll_start(&watcher, UV_READABLE, on_readable));
    sure("uv_timer_init", uv_timer_init(loop, &timer));
    sure("uv_timer_start", uv_timer_start(&timer, on_tick, FLEET_TICK_MS, FLEET_TICK_MS));
    uv_run(loop, UV_RUN_DEFAULT);
    sure("uv_loop_close", uv_loop_close(loop));
    return fleet_end("libuv");
}
