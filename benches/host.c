/*
 * The library as a client in a benchmark: one host over the C interface, doing whole calls (ids, stamping, correlation,
 * deadlines, events). Called as
 *
 *     host SCENARIO SERVER NUMBER...
 *
 * it starts the server, does the work and prints one JSON object with the figures. Scenarios:
 *
 *     seq N          N calls one after another
 *     pipe W N       N calls, W of them under way
 *     bulk W N       the same with answers of 1 MiB
 *     flood N        one call, N notifications
 *     idle C         C servers that do nothing
 *     restart N      a server that dies after each answer: from that answer to the first one of its replacement
 *
 * cpu_us is user and system time of this process per call or message. No timeouts, no output in between: the figures are the
 * library's.
 */
#define _GNU_SOURCE

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <mcp_supervised.h>

#define BATCH 64

static mcp_supervised *host;
static const char *server;

static void fail(const char *what, int32_t status) {
    const char *text = "";
    if (host) mcp_supervised_last_error(host, &text, NULL);
    fprintf(stderr, "%s: %s: %s\n", what, mcp_supervised_status_name(status), text);
    exit(1);
}

static int32_t check(const char *what, int32_t status) {
    if (status < 0) fail(what, status);
    return status;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double cpu(void) {
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6;
}

static long status_of(const char *key) {
    char line[256];
    long value = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key))) value = atol(line + strlen(key) + 1);
    if (f) fclose(f);
    return value;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *values, size_t count, double q) {
    qsort(values, count, sizeof *values, by_value);
    size_t at = (size_t)(q * (double)count);
    return values[at < count ? at : count - 1];
}

/* A server, with one more argument for the scenario, as the bench server takes them. */
static mcp_supervised_peer launch(const char *extra) {
    mcp_supervised_spec *spec = NULL;
    check("spec_new", mcp_supervised_spec_new(server, MCP_SUPERVISED_CSTR, &spec));
    check("mode", mcp_supervised_spec_mode(spec, MCP_SUPERVISED_MODE_MODERN));
    if (extra) check("spec_arg", mcp_supervised_spec_arg(spec, extra, MCP_SUPERVISED_CSTR));
    check("client_info",
          mcp_supervised_spec_client_info(spec, "bench", MCP_SUPERVISED_CSTR, "1.0.0", MCP_SUPERVISED_CSTR));
    check("restart", mcp_supervised_spec_restart(spec, MCP_SUPERVISED_UNLIMITED, 0, 1)); /* no delay */
    mcp_supervised_peer peer = 0;
    check("add", mcp_supervised_add(host, spec, 0, &peer));
    mcp_supervised_spec_free(spec);
    check("start", mcp_supervised_start(host, peer));
    return peer;
}

static void call(mcp_supervised_peer peer, const char *tool) {
    char params[96];
    int len = snprintf(params, sizeof params, "{\"name\":\"%s\",\"arguments\":{\"text\":\"hello\"}}", tool);
    mcp_supervised_request_id id;
    check("request", mcp_supervised_request(host, peer, "tools/call", 10, params, (size_t)len, NULL, &id));
}

/* The same text every time, so that the figures are not those of snprintf. */
static void echo(mcp_supervised_peer peer) {
    static const char PARAMS[] = "{\"name\":\"echo\",\"arguments\":{\"text\":\"hello\"}}";
    mcp_supervised_request_id id;
    check("request", mcp_supervised_request(host, peer, "tools/call", 10, PARAMS, sizeof PARAMS - 1, NULL, &id));
}

static mcp_supervised_event events[BATCH];

static int32_t take(void) {
    return check("poll", mcp_supervised_poll(host, events, sizeof events[0], BATCH, -1));
}

/* How many of the events taken are answers. Anything that must not happen ends the run. */
static long answers(int32_t taken) {
    long found = 0;
    for (int32_t i = 0; i < taken; i++) {
        if (events[i].kind == MCP_SUPERVISED_EVENT_MESSAGE) found += (events[i].flags & MCP_SUPERVISED_FLAG_COMPLETE) != 0;
        else if (events[i].kind == MCP_SUPERVISED_EVENT_ERROR || events[i].kind == MCP_SUPERVISED_EVENT_CLOSE) {
            fprintf(stderr, "kind %u status %d: %.*s\n", events[i].kind, events[i].status, (int)events[i].payload_len,
                    events[i].payload);
            exit(1);
        }
    }
    return found;
}

static void ask_and_wait(mcp_supervised_peer peer) {
    echo(peer);
    while (!answers(take())) {}
}

static void seq(long count) {
    mcp_supervised_peer peer = launch(NULL);
    double *us = malloc(sizeof *us * (size_t)count);
    for (long i = 0; i < count / 10 + 1; i++) ask_and_wait(peer);
    double begun = now(), used = cpu();
    for (long i = 0; i < count; i++) {
        double t = now();
        ask_and_wait(peer);
        us[i] = (now() - t) * 1e6;
    }
    double took = now() - begun;
    used = cpu() - used;
    double p50 = quantile(us, (size_t)count, 0.5), p99 = quantile(us, (size_t)count, 0.99);
    printf("{\"calls_s\":%.0f,\"p50_us\":%.3f,\"p99_us\":%.3f,\"cpu_us\":%.4f,\"threads\":%ld}\n", (double)count / took, p50,
           p99, used / (double)count * 1e6, status_of("Threads"));
}

/* Calls with `width` under way all the time; seconds and cpu seconds for `count` of them. */
static void pipelined(mcp_supervised_peer peer, long width, long count, double *took, double *used) {
    long sent = 0, done = 0;
    *took = now();
    *used = cpu();
    while (sent < width && sent < count) echo(peer), sent++;
    while (done < count) {
        long found = answers(take());
        done += found;
        for (; found > 0 && sent < count; found--) echo(peer), sent++;
    }
    *took = now() - *took;
    *used = cpu() - *used;
}

static void pipe_or_bulk(long width, long count, int bulk) {
    mcp_supervised_peer peer = launch(bulk ? "payload=1048576" : NULL);
    double took, used;
    pipelined(peer, width, count / 10 + 1, &took, &used);
    pipelined(peer, width, count, &took, &used);
    if (bulk)
        printf("{\"MB_s\":%.1f,\"cpu_us\":%.2f,\"hwm_kb\":%ld}\n", (double)count * 1.048576 / took, used / (double)count * 1e6,
               status_of("VmHWM"));
    else
        printf("{\"calls_s\":%.0f,\"cpu_us\":%.4f}\n", (double)count / took, used / (double)count * 1e6);
}

static void flood(long count) {
    char notify[64];
    snprintf(notify, sizeof notify, "notify=%ld", count);
    mcp_supervised_peer peer = launch(notify);
    ask_and_wait(peer);
    long seen = 0;
    double begun = now(), used = cpu();
    call(peer, "flood");
    while (seen < count) {
        int32_t taken = take();
        for (int32_t i = 0; i < taken; i++)
            seen += events[i].kind == MCP_SUPERVISED_EVENT_MESSAGE
                    && events[i].message_kind == MCP_SUPERVISED_MESSAGE_NOTIFICATION;
    }
    double took = now() - begun;
    used = cpu() - used;
    printf("{\"msgs_s\":%.0f,\"cpu_us\":%.4f,\"hwm_kb\":%ld,\"delivered\":%ld}\n", (double)count / took,
           used / (double)count * 1e6, status_of("VmHWM"), seen);
}

static void idle(long count) {
    double begun = now();
    mcp_supervised_peer *peers = malloc(sizeof *peers * (size_t)count);
    for (long i = 0; i < count; i++) peers[i] = launch(NULL);
    for (long i = 0; i < count; i++) ask_and_wait(peers[i]);
    double connect = now() - begun;
    while (mcp_supervised_poll(host, events, sizeof events[0], BATCH, 500) > 0) {}
    double used = cpu();
    begun = now();
    while (now() - begun < 2.0) check("poll", mcp_supervised_poll(host, events, sizeof events[0], BATCH, 2000));
    used = cpu() - used;
    printf("{\"rss_kb\":%ld,\"threads\":%ld,\"connect_ms\":%.2f,\"idle_cpu_ms_s\":%.3f}\n", status_of("VmRSS"),
           status_of("Threads"), connect * 1e3, used / 2.0 * 1e3);
}

static void restart(long count) {
    mcp_supervised_peer peer = launch("crash=1");
    double *ms = malloc(sizeof *ms * (size_t)count), *detect = malloc(sizeof *detect * (size_t)count);
    double answered = 0;
    long lives = 0;
    echo(peer);
    while (lives < count) {
        int32_t taken = take();
        for (int32_t i = 0; i < taken && lives < count; i++) {
            const mcp_supervised_event *e = &events[i];
            if (e->kind == MCP_SUPERVISED_EVENT_MESSAGE) {
                if (answered > 0) ms[lives++] = (now() - answered) * 1e3;
                answered = now();
            } else if (e->kind == MCP_SUPERVISED_EVENT_CLOSE) {
                detect[lives] = (now() - answered) * 1e6;
            } else if (e->kind == MCP_SUPERVISED_EVENT_RECONNECT) {
                echo(peer);
            } else if (e->kind == MCP_SUPERVISED_EVENT_ERROR) {
                fprintf(stderr, "lost: %.*s\n", (int)e->payload_len, e->payload);
                exit(1);
            }
        }
    }
    printf("{\"restart_ms\":%.4f,\"restart_p99_ms\":%.4f,\"detect_us\":%.2f}\n", quantile(ms, (size_t)count, 0.5),
           quantile(ms, (size_t)count, 0.99), quantile(detect, (size_t)count, 0.5));
}

static long number(char **argv, int at) {
    if (!argv[at]) fail("a number is missing", MCP_SUPERVISED_E_INVALID);
    return strtol(argv[at], NULL, 10);
}

int main(int argc, char **argv) {
    char why[256] = "";
    if (argc < 4) return fprintf(stderr, "usage: host SCENARIO SERVER NUMBER...\n"), 2;
    if (mcp_supervised_new(NULL, &host, why, sizeof why) < 0) return fprintf(stderr, "%s\n", why), 1;
    const char *scenario = argv[1];
    server = argv[2];
    int two = !strcmp(scenario, "pipe") || !strcmp(scenario, "bulk");
    long a = number(argv, 3), b = two ? number(argv, 4) : 0;
    if (!strcmp(scenario, "seq")) seq(a);
    else if (!strcmp(scenario, "pipe")) pipe_or_bulk(a, b, 0);
    else if (!strcmp(scenario, "bulk")) pipe_or_bulk(a, b, 1);
    else if (!strcmp(scenario, "flood")) flood(a);
    else if (!strcmp(scenario, "idle")) idle(a);
    else if (!strcmp(scenario, "restart")) restart(a);
    else return fprintf(stderr, "no scenario %s\n", scenario), 2;
    return mcp_supervised_free(host) < 0;
}
