/*
 * The library as a client in a benchmark: one host over the C interface, doing whole calls (ids, stamping, correlation,
 * deadlines, events). Called as
 *
 *     host SCENARIO SERVER NUMBER...
 *
 * it starts the server, does the work and prints one JSON object with the figures. Scenarios with any server that answers
 * `tools/call`:
 *
 *     seq N          N calls one after another
 *     pipe W N       N calls, W of them under way
 *     bulk W N       the same with answers of 1 MiB
 *     flood N        one call, N notifications
 *     notify N       N notifications of the host's, 64 before each poll
 *     idle C         C servers that do nothing
 *     restart N      a server that dies after each answer: from that answer to the first one of its replacement
 *
 * and with the server that lies beside this file:
 *
 *     dense W N      as bulk, with answers of many small objects
 *     size B W N     as bulk, with answers of B bytes
 *     busy C         as idle, after each of the servers had something to do
 *     memory N HOW   peak memory in a flood of N; HOW is polling, one (event per poll), driving (without taking any) or away
 *     quiet C        C servers that do nothing, for a tracer: getppid() stands at the borders of the parts
 *     deaths N       a server that answers and dies, N times: answers that were lost
 *     spawn N MIB    starts of a server by a host of so much memory
 *     peers C N      N calls of one server among C, and of all in turn
 *     fair C N       N calls of each of C-1 servers, without and with a flood of the last one
 *
 * cpu_us is user and system time of this process per call or message. No timeouts, no output in between: the figures are the
 * library's.
 */
#define _GNU_SOURCE
#include "host.h"

mcp_supervised *host;
const char *server;
mcp_supervised_event events[BATCH];

void fail(const char *what, int32_t status) {
    const char *text = "";
    if (host) mcp_supervised_last_error(host, &text, NULL);
    fprintf(stderr, "%s: %s: %s\n", what, mcp_supervised_status_name(status), text);
    exit(1);
}

int32_t check(const char *what, int32_t status) {
    if (status < 0) fail(what, status);
    return status;
}

mcp_supervised_peer launch_with(const char *first, const char *second, uint64_t timeout_ms) {
    mcp_supervised_spec *spec = NULL;
    check("spec_new", mcp_supervised_spec_new(server, MCP_SUPERVISED_CSTR, &spec));
    check("mode", mcp_supervised_spec_mode(spec, MCP_SUPERVISED_MODE_MODERN));
    if (first) check("spec_arg", mcp_supervised_spec_arg(spec, first, MCP_SUPERVISED_CSTR));
    if (second) check("spec_arg", mcp_supervised_spec_arg(spec, second, MCP_SUPERVISED_CSTR));
    check("client_info",
          mcp_supervised_spec_client_info(spec, "bench", MCP_SUPERVISED_CSTR, "1.0.0", MCP_SUPERVISED_CSTR));
    check("restart", mcp_supervised_spec_restart(spec, MCP_SUPERVISED_UNLIMITED, 0, 1)); /* no delay */
    check("timeouts", mcp_supervised_spec_request_timeouts(spec, timeout_ms, 0));
    mcp_supervised_peer peer = 0;
    check("add", mcp_supervised_add(host, spec, 0, &peer));
    mcp_supervised_spec_free(spec);
    check("start", mcp_supervised_start(host, peer));
    return peer;
}

mcp_supervised_peer launch(const char *option) { return launch_with(option, NULL, 0); }

void call(mcp_supervised_peer peer, const char *tool, const char *arguments, uint64_t user_data) {
    char params[256];
    int len = snprintf(params, sizeof params, "{\"name\":\"%s\",\"arguments\":%s}", tool, arguments);
    mcp_supervised_request_options options = {.size = sizeof options, .user_data = user_data};
    mcp_supervised_request_id id;
    check("request", mcp_supervised_request(host, peer, "tools/call", 10, params, (size_t)len, &options, &id));
}

void echo(mcp_supervised_peer peer) {
    static const char PARAMS[] = "{\"name\":\"echo\",\"arguments\":{\"text\":\"hello\"}}";
    mcp_supervised_request_id id;
    check("request", mcp_supervised_request(host, peer, "tools/call", 10, PARAMS, sizeof PARAMS - 1, NULL, &id));
}

int32_t take(void) { return check("poll", mcp_supervised_poll(host, events, sizeof events[0], BATCH, -1)); }

long answers(int32_t taken) {
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

void ask_and_wait(mcp_supervised_peer peer) {
    echo(peer);
    while (!answers(take())) {}
}

void settle(double seconds) {
    double until = now() + seconds;
    for (double left = seconds; left > 0; left = until - now())
        check("poll", mcp_supervised_poll(host, events, sizeof events[0], BATCH, (int32_t)(left * 1e3) + 1));
}

static void seq(long count) {
    mcp_supervised_peer peer = launch(NULL);
    double *us = doubles(count);
    for (long i = 0; i < count / 10 + 1; i++) ask_and_wait(peer);
    double begun = now(), used = cpu();
    for (long i = 0; i < count; i++) {
        double t = now();
        ask_and_wait(peer);
        us[i] = (now() - t) * 1e6;
    }
    double took = now() - begun;
    used = cpu() - used;
    printf("{\"calls_s\":%.0f,\"p50_us\":%.3f,\"p99_us\":%.3f,\"cpu_us\":%.4f,\"threads\":%ld}\n", (double)count / took,
           quantile(us, (size_t)count, 0.5), quantile(us, (size_t)count, 0.99), used / (double)count * 1e6, status_of("Threads"));
}

void pipelined(mcp_supervised_peer peer, long width, long count, double *took, double *used) {
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

/* Calls with answers of `bytes`. */
static void sized(long bytes, const char *kind, long width, long count) {
    char payload[64];
    snprintf(payload, sizeof payload, "payload=%ld", bytes);
    mcp_supervised_peer peer = launch_with(payload, kind, 0);
    double took, used;
    pipelined(peer, width, count / 10 + 1, &took, &used);
    pipelined(peer, width, count, &took, &used);
    printf("{\"calls_s\":%.0f,\"cpu_us\":%.4f,\"MB_s\":%.1f,\"hwm_kb\":%ld}\n", (double)count / took, used / (double)count * 1e6,
           (double)count * (double)bytes / took / 1e6, status_of("VmHWM"));
}

static void flood(long count) {
    char notify[64];
    snprintf(notify, sizeof notify, "notify=%ld", count);
    mcp_supervised_peer peer = launch(notify);
    ask_and_wait(peer);
    long seen = 0;
    double begun = now(), used = cpu();
    call(peer, "flood", "{}", 0);
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

static void notify(long count) {
    static const char PARAMS[] = "{\"level\":\"info\",\"data\":\"00000000000000000000007\"}";
    mcp_supervised_peer peer = launch(NULL);
    ask_and_wait(peer);
    double begun = now(), used = cpu();
    for (long sent = 0; sent < count;) {
        for (long i = 0; i < 64 && sent < count; i++, sent++)
            check("notify", mcp_supervised_notify(host, peer, "notifications/message", 21, PARAMS, sizeof PARAMS - 1));
        ask_and_wait(peer); /* the server has read them all */
    }
    double took = now() - begun;
    used = cpu() - used;
    printf("{\"msgs_s\":%.0f,\"cpu_us\":%.4f}\n", (double)count / took, used / (double)count * 1e6);
}

int main(int argc, char **argv) {
    char why[256] = "";
    if (argc < 4) return fprintf(stderr, "usage: host SCENARIO SERVER NUMBER...\n"), 2;
    if (mcp_supervised_new(NULL, &host, why, sizeof why) < 0) return fprintf(stderr, "%s\n", why), 1;
    const char *scenario = argv[1];
    long n[3] = {0, 0, 0};
    for (int i = 3; i < argc && i < 6; i++) n[i - 3] = strtol(argv[i], NULL, 10);
    server = argv[2];
    if (!strcmp(scenario, "seq")) seq(n[0]);
    else if (!strcmp(scenario, "pipe")) sized(32, NULL, n[0], n[1]);
    else if (!strcmp(scenario, "bulk")) sized(1 << 20, NULL, n[0], n[1]);
    else if (!strcmp(scenario, "dense")) sized(1 << 20, "dense", n[0], n[1]);
    else if (!strcmp(scenario, "size")) sized(n[0], NULL, n[1], n[2]);
    else if (!strcmp(scenario, "flood")) flood(n[0]);
    else if (!strcmp(scenario, "notify")) notify(n[0]);
    else if (!strcmp(scenario, "idle")) idle(n[0]);
    else if (!strcmp(scenario, "busy")) busy(n[0]);
    else if (!strcmp(scenario, "quiet")) quiet(n[0]);
    else if (!strcmp(scenario, "memory")) memory(n[0], argc > 4 ? argv[4] : "polling");
    else if (!strcmp(scenario, "restart")) restart(n[0]);
    else if (!strcmp(scenario, "deaths")) deaths(n[0]);
    else if (!strcmp(scenario, "spawn")) spawns(n[0], n[1]);
    else if (!strcmp(scenario, "peers")) many(n[0], n[1]);
    else if (!strcmp(scenario, "fair")) fair(n[0], n[1]);
    else return fprintf(stderr, "no scenario %s\n", scenario), 2;
    fflush(stdout);
    return mcp_supervised_free(host) < 0;
}
