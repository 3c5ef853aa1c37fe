/* Lives and deaths: how long a restart takes, what is lost by a death, what a start costs. */
#define _GNU_SOURCE
#include "host.h"

#include <sched.h>

/* From an answer of a server that dies after it to the first answer of its replacement. */
void restart(long count) {
    mcp_supervised_peer peer = launch("crash=1");
    double *ms = doubles(count), *detect = doubles(count);
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
    printf("{\"restart_ms\":%.4f,\"restart_p99_ms\":%.4f,\"detect_us\":%.2f,\"lost_answers\":0}\n",
           quantile(ms, (size_t)count, 0.5), quantile(ms, (size_t)count, 0.99), quantile(detect, (size_t)count, 0.5));
}

/* Whether the process has ended and nobody has reaped it. */
static int is_zombie(int32_t pid) {
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f) return 1;
    char *ok = fgets(line, sizeof line, f);
    fclose(f);
    const char *name_end = ok ? strrchr(line, ')') : NULL;
    return !name_end || name_end[2] == 'Z';
}

/*
 * Each life gets up to 64 calls, the last of which kills it. All have answers, which the server writes before it dies, and all
 * must come before CLOSE, in the order in which they were asked for. Answers are small in most lives and fill the pipe in some;
 * the host takes them in batches of 64, 3 and 1, and every fourth time it looks only when the server is long dead.
 */
void deaths(long count) {
    static const int32_t BATCHES[] = {BATCH, 3, 1};
    mcp_supervised_peer peer = launch("sized");
    long lives = 0, expected = 0, lost = 0, disordered = 0;
    double begun = now();
    while (lives < count) {
        long calls = 1 + lives * 7 % 63, next = 1;
        long bytes = lives % 5 == 4 ? 4000 : 32;
        char arguments[64];
        snprintf(arguments, sizeof arguments, "{\"bytes\":%ld}", bytes);
        for (long i = 1; i < calls; i++) call(peer, "echo", arguments, (uint64_t)i);
        snprintf(arguments, sizeof arguments, "{\"how\":\"%s\",\"bytes\":%ld}", lives % 2 ? "kill" : "exit", bytes);
        call(peer, "die", arguments, (uint64_t)calls);
        expected += calls;
        if (lives % 4 == 3 && bytes * calls < 60000) {
            int32_t pid = mcp_supervised_pid(host, peer);
            check("poll", mcp_supervised_poll(host, NULL, sizeof events[0], 0, 0)); /* writes what is queued */
            while (!is_zombie(pid)) sched_yield();
        }
        for (int again = 0, closed = 0; !again;) {
            int32_t taken =
                check("poll", mcp_supervised_poll(host, events, sizeof events[0], (size_t)BATCHES[lives % 3], -1));
            for (int32_t i = 0; i < taken; i++) {
                const mcp_supervised_event *e = &events[i];
                if (e->kind == MCP_SUPERVISED_EVENT_MESSAGE) {
                    disordered += closed || e->user_data != (uint64_t)next;
                    next = (long)e->user_data + 1;
                } else if (e->kind == MCP_SUPERVISED_EVENT_ERROR) {
                    lost++;
                } else if (e->kind == MCP_SUPERVISED_EVENT_CLOSE) {
                    closed = 1;
                    disordered += next != calls + 1;
                } else if (e->kind == MCP_SUPERVISED_EVENT_RECONNECT) {
                    again = 1;
                }
            }
        }
        lives++;
    }
    printf("{\"deaths\":%ld,\"answers\":%ld,\"lost_answers\":%ld,\"disordered\":%ld,\"death_us\":%.1f}\n", lives, expected, lost,
           disordered, (now() - begun) / (double)count * 1e6);
}

/* The call that starts a server, and its first answer; by a host of `mib` MiB. */
void spawns(long count, long mib) {
    double *call_us = doubles(count), *answer_us = doubles(count);
    fatten(mib);
    for (long i = 0; i < count; i++) {
        mcp_supervised_spec *spec = NULL;
        mcp_supervised_peer peer = 0;
        check("spec_new", mcp_supervised_spec_new(server, MCP_SUPERVISED_CSTR, &spec));
        check("mode", mcp_supervised_spec_mode(spec, MCP_SUPERVISED_MODE_MODERN));
        check("restart", mcp_supervised_spec_restart(spec, MCP_SUPERVISED_NO_RESTART, 0, 1));
        check("add", mcp_supervised_add(host, spec, 0, &peer));
        mcp_supervised_spec_free(spec);
        double begun = now();
        check("start", mcp_supervised_start(host, peer));
        call_us[i] = (now() - begun) * 1e6;
        ask_and_wait(peer);
        answer_us[i] = (now() - begun) * 1e6;
        check("close", mcp_supervised_close(host, peer));
        for (int closed = 0; !closed;) {
            int32_t taken = take();
            for (int32_t j = 0; j < taken; j++) closed |= (events[j].flags & MCP_SUPERVISED_FLAG_FINAL) != 0;
        }
        check("remove", mcp_supervised_remove(host, peer));
    }
    printf("{\"call_us\":%.2f,\"call_p99_us\":%.2f,\"first_answer_us\":%.2f}\n", quantile(call_us, (size_t)count, 0.5),
           quantile(call_us, (size_t)count, 0.99), quantile(answer_us, (size_t)count, 0.5));
}
