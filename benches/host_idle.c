/* What servers cost that do nothing, and what a flood costs in memory. */
#define _GNU_SOURCE
#include "host.h"

#include <poll.h>
#include <unistd.h>

static mcp_supervised_peer *connect_all(long count, const char *option, uint64_t timeout_ms) {
    mcp_supervised_peer *peers = calloc((size_t)count, sizeof *peers);
    if (!peers) abort();
    for (long i = 0; i < count; i++) peers[i] = launch_with(option, NULL, timeout_ms);
    for (long i = 0; i < count; i++) ask_and_wait(peers[i]);
    return peers;
}

static void watch_and_print(double connect) {
    double used = cpu();
    settle(2.0);
    used = cpu() - used;
    printf("{\"rss_kb\":%ld,\"threads\":%ld,\"connect_ms\":%.2f,\"idle_cpu_ms_s\":%.3f}\n", status_of("VmRSS"),
           status_of("Threads"), connect * 1e3, used / 2.0 * 1e3);
}

void idle(long count) {
    double begun = now();
    connect_all(count, NULL, 0);
    double connect = now() - begun;
    settle(0.5);
    watch_and_print(connect);
}

/* Each server gets small calls, many at a time, and two long answers; all servers at once, so that everyone has buffers. */
void busy(long count) {
    double begun = now();
    mcp_supervised_peer *peers = connect_all(count, "sized", 0);
    double connect = now() - begun;
    for (int round = 0; round < 4; round++) {
        long open = 0;
        for (long i = 0; i < count; i++) {
            for (int j = 0; j < 64; j++, open++) call(peers[i], "echo", "{\"bytes\":32}", 0);
            if (round % 2) call(peers[i], "echo", "{\"bytes\":262144}", 0), open++;
        }
        while (open > 0) open -= answers(take());
    }
    settle(3.0); /* what the traffic took is given back after a second */
    watch_and_print(connect);
}

/*
 * Nothing to do, three seconds each: first whatever is left of the traffic (one late timer may ring), then in poll(2) on the
 * descriptor as a host with its own loop waits, then inside the library. The calls of getppid() are for the one who counts.
 */
void quiet(long count) {
    connect_all(count, NULL, 1000);
    long called = 0;
    getppid();
    settle(3.0);
    getppid();
    struct pollfd fd = {.fd = check("fd", mcp_supervised_fd(host)), .events = POLLIN};
    double until = now() + 3.0;
    for (double left = 3.0; left > 0; left = until - now())
        if (poll(&fd, 1, (int)(left * 1e3) + 1) > 0) {
            check("poll", mcp_supervised_poll(host, events, sizeof events[0], BATCH, 0));
            called++;
        }
    getppid();
    settle(3.0);
    getppid();
    printf("{\"woken\":%ld,\"threads\":%ld}\n", called, status_of("Threads"));
}

static void forget_peak(void) {
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f || fputs("5", f) < 0 || fclose(f)) {
        perror("/proc/self/clear_refs");
        exit(1);
    }
}

void memory(long count, const char *how) {
    char notify[64];
    snprintf(notify, sizeof notify, "notify=%ld", count);
    size_t batch = !strcmp(how, "one") ? 1 : BATCH;
    mcp_supervised_peer peer = launch(notify);
    ask_and_wait(peer);
    settle(1.5);
    forget_peak();
    long idle_kb = status_of("VmRSS"), seen = 0;
    call(peer, "flood", "{}", 0);
    if (!strcmp(how, "driving")) {
        for (double until = now() + 1.0; now() < until;)
            check("poll", mcp_supervised_poll(host, NULL, sizeof events[0], 0, 1));
    } else if (!strcmp(how, "away")) {
        check("poll", mcp_supervised_poll(host, NULL, sizeof events[0], 0, 0));
        usleep(1000000);
    }
    while (seen < count) {
        int32_t taken = check("poll", mcp_supervised_poll(host, events, sizeof events[0], batch, -1));
        for (int32_t i = 0; i < taken; i++)
            seen += events[i].kind == MCP_SUPERVISED_EVENT_MESSAGE
                    && events[i].message_kind == MCP_SUPERVISED_MESSAGE_NOTIFICATION;
    }
    long peak_kb = status_of("VmHWM");
    settle(2.0);
    printf("{\"idle_kb\":%ld,\"peak_kb\":%ld,\"over_kb\":%ld,\"after_kb\":%ld,\"delivered\":%ld}\n", idle_kb, peak_kb,
           peak_kb - idle_kb, status_of("VmRSS"), seen);
}
