/* Many servers in one handle: what the others cost a call, and what a flood does to the others. */
#define _GNU_SOURCE
#include "host.h"

static mcp_supervised_peer *start_all(long count) {
    mcp_supervised_peer *peers = calloc((size_t)count, sizeof *peers);
    if (!peers) abort();
    for (long i = 0; i < count; i++) {
        peers[i] = launch(NULL);
        ask_and_wait(peers[i]);
    }
    return peers;
}

static void raise_limit_of_descriptors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Calls one after another, of one server in the middle (`step` 0) or of all in turn (`step` 1). */
static void in_turn(const mcp_supervised_peer *peers, long at, long peer_count, long step, long count, double *p50, double *used) {
    double *us = doubles(count);
    double begun = cpu();
    for (long i = 0; i < count; i++) {
        double t = now();
        ask_and_wait(peers[at]);
        us[i] = (now() - t) * 1e6;
        at = (at + step) % peer_count;
    }
    *used = (cpu() - begun) / (double)count * 1e6;
    *p50 = quantile(us, (size_t)count, 0.5);
    free(us);
}

void many(long peer_count, long count) {
    raise_limit_of_descriptors();
    double begun = now();
    mcp_supervised_peer *peers = start_all(peer_count);
    double connect = now() - begun;
    settle(0.5);
    double p50, used, p50_all, used_all, took, piped;
    in_turn(peers, peer_count / 2, peer_count, 0, count / 10 + 1, &p50, &used);
    in_turn(peers, peer_count / 2, peer_count, 0, count, &p50, &used);
    pipelined(peers[peer_count / 2], 64, count / 10 + 1, &took, &piped);
    pipelined(peers[peer_count / 2], 64, count * 4, &took, &piped);
    in_turn(peers, 0, peer_count, 1, peer_count, &p50_all, &used_all);
    in_turn(peers, 0, peer_count, 1, count, &p50_all, &used_all);
    printf("{\"p50_us\":%.3f,\"cpu_us\":%.4f,\"pipe64_cpu_us\":%.4f,\"all_p50_us\":%.3f,\"all_cpu_us\":%.4f,\"rss_kb\":%ld,"
           "\"connect_ms\":%.1f}\n",
           p50, used, piped / (double)(count * 4) * 1e6, p50_all, used_all, status_of("VmRSS"), connect * 1e3);
}

/* Who calls whom, and how long each call took. */
struct callers {
    const mcp_supervised_peer *peers;
    long count;
    double *sent;
    double *us;
    long wanted, done, asked;
    long flooded;
};

static void ask(struct callers *c, long which) {
    static const char PARAMS[] = "{\"name\":\"echo\",\"arguments\":{\"text\":\"hello\"}}";
    mcp_supervised_request_options options = {.size = sizeof options, .user_data = (uint64_t)which + 1};
    mcp_supervised_request_id id;
    c->sent[which] = now();
    c->asked++;
    check("request", mcp_supervised_request(host, c->peers[which], "tools/call", 10, PARAMS, sizeof PARAMS - 1, &options, &id));
}

/* One call under way, of one server after the other; or one at each of them, all the time. */
static void run(struct callers *c, int at_all) {
    c->done = c->asked = c->flooded = 0;
    for (long i = 0; i < (at_all ? c->count : 1); i++) ask(c, i);
    while (c->done < c->wanted) {
        int32_t taken = take();
        for (int32_t i = 0; i < taken; i++) {
            const mcp_supervised_event *e = &events[i];
            if (e->kind != MCP_SUPERVISED_EVENT_MESSAGE) fail("an event that must not be", e->status);
            if (!(e->flags & MCP_SUPERVISED_FLAG_COMPLETE)) {
                c->flooded++;
                continue;
            }
            long which = (long)e->user_data - 1;
            c->us[c->done++] = (now() - c->sent[which]) * 1e6;
            if (c->asked < c->wanted) ask(c, at_all ? which : (which + 1) % c->count);
            if (c->done == c->wanted) break;
        }
    }
}

/*
 * The last server floods without end, the others answer calls: one of them at a time, and all at the same time. On one processor
 * the flooding server takes its share of the time, which is not the library's doing.
 */
void fair(long peer_count, long rounds) {
    raise_limit_of_descriptors();
    mcp_supervised_peer flooder = launch("notify=2000000000");
    ask_and_wait(flooder);
    mcp_supervised_peer *peers = start_all(peer_count - 1);
    struct callers c = {.peers = peers, .count = peer_count - 1, .wanted = rounds * (peer_count - 1)};
    c.sent = doubles(c.count);
    c.us = doubles(c.wanted);
    double one[2], one_p50[2], all[2], all_p50[2], begun;
    run(&c, 1); /* warm */
    for (int flooding = 0; flooding < 2; flooding++) {
        if (flooding) call(flooder, "flood", "{}", 0);
        run(&c, 0);
        one[flooding] = quantile(c.us, (size_t)c.wanted, 0.99);
        one_p50[flooding] = quantile(c.us, (size_t)c.wanted, 0.5);
        begun = now();
        run(&c, 1);
        all[flooding] = quantile(c.us, (size_t)c.wanted, 0.99);
        all_p50[flooding] = quantile(c.us, (size_t)c.wanted, 0.5);
    }
    printf("{\"one_p50_us\":%.2f,\"one_p99_us\":%.2f,\"one_flood_p50_us\":%.2f,\"one_flood_p99_us\":%.2f,\"all_p50_us\":%.2f,"
           "\"all_p99_us\":%.2f,\"all_flood_p50_us\":%.2f,\"all_flood_p99_us\":%.2f,\"flood_msgs_s\":%.0f}\n",
           one_p50[0], one[0], one_p50[1], one[1], all_p50[0], all[0], all_p50[1], all[1], (double)c.flooded / (now() - begun));
}
