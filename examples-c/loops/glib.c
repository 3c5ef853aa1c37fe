/*
 * GLib: the descriptor as a source of g_unix_fd_add, beside a timeout. GLib looks at levels, with poll(2).
 *
 *     cc glib.c fleet.c $(pkg-config --cflags --libs glib-2.0) -lmcp_supervised
 */
#include <glib-unix.h>
#include <glib.h>

#include "fleet.h"

static gboolean on_tick(gpointer unused) {
    (void)unused;
    fleet_tick();
    return G_SOURCE_CONTINUE;
}

static gboolean on_readable(gint fd, GIOCondition condition, gpointer loop) {
    (void)fd, (void)condition;
    fleet_readable(0);
    if (fleet_is_done()) {
        g_main_loop_quit(loop);
        return G_SOURCE_REMOVE;
    }
    return G_SOURCE_CONTINUE;
}

int main(int argc, char **argv) {
    GMainLoop *loop = g_main_loop_new(NULL, FALSE);
    fleet_start(argc, argv);
    g_unix_fd_add(fleet_fd(), G_IO_IN, on_readable, loop);
    guint timer = g_timeout_add(FLEET_TICK_MS, on_tick, NULL);
    g_main_loop_run(loop);
    g_source_remove(timer);
    g_main_loop_unref(loop);
    return fleet_end("GLib");
}
