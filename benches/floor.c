/*
 * What the pipes allow: the same work as host.c with nothing between the program and the system. One thread, two pipes, epoll,
 * read, write, and memchr for the line feeds; no JSON, no ids, no deadlines. Called as host.c is:
 *
 *     floor SCENARIO SERVER NUMBER...
 *
 *     seq N            pipe W N         bulk W N         dense W N
 *     size B W N       flood N          idle C           restart N        spawn N MIB      fair C N
 *
 * FLOOR_WORK=1 in the environment does for pipe and flood, by hand, what a client has to do for a call (floor_work.c).
 * FLOOR_REQUEST=stamped the environment sends requests as long as those of the library. FLOOR_PARSE=1 counts brackets and
 * strings of every byte, as the shortest parser written by hand would. FLOOR_PIPE=BYTES enlarges the pipes.
 */
#define _GNU_SOURCE
#include "common.h"
#include "floor_work.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define ARGUMENTS "\"name\":\"echo\",\"arguments\":{\"text\":\"hello\"}"
static const char PLAIN[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{" ARGUMENTS "}}\n";
static const char STAMPED[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"_meta\":{"
                              "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                              "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"bench\",\"version\":\"1.0.0\"},"
                              "\"io.modelcontextprotocol/clientCapabilities\":{}}," ARGUMENTS "}}\n";
static const char FLOOD[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"flood\",\"arguments\":{}}}\n";

enum { READ_BYTES = 256 << 10, MOST_WIDTH = 4096 };

struct server {
    pid_t pid;
    int in, out, pidfd, epoll;
};

static const char *program;
static const char *request = PLAIN;
static size_t request_len = sizeof PLAIN - 1;
static char *requests; /* MOST_WIDTH of them in a row */
static char buffer[READ_BYTES];
static bool parse, work;
static long pipe_bytes;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static pid_t spawn(char *const argv[], int in[2], int out[2]) {
    posix_spawn_file_actions_t actions;
    pid_t pid;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    errno = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
    if (errno) die("posix_spawn");
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static void watch(int epoll, int fd, uint32_t events) {
    struct epoll_event e = {.events = events, .data.fd = fd};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e)) die("epoll_ctl");
}

static struct server launch(char *first, char *second) {
    char *argv[] = {(char *)program, first, second, NULL};
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) die("pipe2");
    if (pipe_bytes && (fcntl(in[1], F_SETPIPE_SZ, pipe_bytes) < 0 || fcntl(out[1], F_SETPIPE_SZ, pipe_bytes) < 0)) die("F_SETPIPE_SZ");
    struct server s = {.pid = spawn(argv, in, out), .in = in[1], .out = out[0]};
    close(in[0]);
    close(out[1]);
    s.pidfd = (int)syscall(SYS_pidfd_open, s.pid, 0);
    s.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (s.epoll < 0) die("epoll_create1"); /* a missing pidfd shows when somebody waits for it */
    fcntl(s.in, F_SETFL, O_NONBLOCK);
    fcntl(s.out, F_SETFL, O_NONBLOCK);
    watch(s.epoll, s.out, EPOLLIN);
    watch(s.epoll, s.in, EPOLLOUT | EPOLLET);
    struct epoll_event once; /* the edge that says that stdin can be written is spent here */
    epoll_wait(s.epoll, &once, 1, 0);
    return s;
}

/* Line feeds in what was read. */
static long lines_in(const char *at, size_t len) {
    static long depth;
    static bool in_string, escaped;
    long found = 0;
    if (parse) {
        for (const char *end = at + len; at < end; at++) {
            if (in_string) {
                if (escaped) escaped = false;
                else if (*at == '\\') escaped = true;
                else if (*at == '"') in_string = false;
            } else if (*at == '"') in_string = true;
            else if (*at == '{' || *at == '[') depth++;
            else if (*at == '}' || *at == ']') depth--;
            else if (*at == '\n') found += depth == 0;
        }
        return found;
    }
    for (const char *end = at + len; (at = memchr(at, '\n', (size_t)(end - at))); at++) found++;
    return found;
}

/* Writes as much as goes of `len` bytes and says how much that was. */
static size_t put(int fd, const char *bytes, size_t len) {
    ssize_t wrote = write(fd, bytes, len);
    if (wrote < 0 && errno != EAGAIN) die("write");
    return wrote < 0 ? 0 : (size_t)wrote;
}

/* Waits and reads; how many lines came. -1 at the end. `writable` is set if stdin can be written again. */
static long get(const struct server *s, size_t *bytes, bool *writable) {
    struct epoll_event events[2];
    int count = epoll_wait(s->epoll, events, 2, -1);
    long found = 0;
    for (int i = 0; i < count; i++) {
        if (events[i].data.fd == s->in) {
            *writable = true;
            continue;
        }
        ssize_t got = read(s->out, buffer, sizeof buffer);
        if (got == 0) return -1;
        if (got < 0 && errno != EAGAIN) die("read");
        if (got > 0) {
            found += lines_in(buffer, (size_t)got);
            if (bytes) *bytes += (size_t)got;
        }
    }
    return found;
}

struct took {
    double seconds, cpu;
    size_t bytes;
};

/* `count` requests, `width` of them under way all the time. Never waits for room in stdin without reading stdout. */
static struct took pipelined(const struct server *s, long width, long count) {
    struct took took = {now(), cpu(), 0};
    size_t owed = 0; /* bytes of requests that are due */
    size_t into = 0; /* bytes of the first of them that were written */
    long asked = width < count ? width : count, done = 0;
    bool writable = true;
    owed = (size_t)asked * request_len;
    while (done < count) {
        if (owed && writable) {
            size_t len = owed < MOST_WIDTH * request_len - into ? owed : MOST_WIDTH * request_len - into;
            size_t wrote = put(s->in, requests + into, len);
            writable = wrote == len;
            owed -= wrote;
            into = (into + wrote) % request_len;
        }
        long found = get(s, &took.bytes, &writable);
        if (found < 0) die("the server ended");
        done += found;
        long more = count - asked < found ? count - asked : found;
        asked += more;
        owed += (size_t)more * request_len;
    }
    took.seconds = now() - took.seconds;
    took.cpu = cpu() - took.cpu;
    return took;
}

static void one_call(const struct server *s) {
    bool ignored;
    if (put(s->in, request, request_len) != request_len) die("a short write");
    for (long found = 0; found == 0;)
        if ((found = get(s, NULL, &ignored)) < 0) die("the server ended");
}

/* As `pipelined`, with the work of a client. */
static struct took worked(const struct server *s, long width, long count) {
    static const char PARAMS[] = "{" ARGUMENTS "}";
    static char out[MOST_WIDTH * 512];
    struct took took = {now(), cpu(), 0};
    size_t out_len = 0, written = 0, left = 0;
    long asked = 0, done = 0, allowed = width;
    bool writable = true;
    while (done < count) {
        uint64_t clock = (uint64_t)(now() * 1e9);
        for (; asked < count && asked < allowed; asked++)
            out_len += floor_request(out + out_len, "tools/call", 10, PARAMS, sizeof PARAMS - 1, clock);
        if (written < out_len && writable) {
            written += put(s->in, out + written, out_len - written);
            writable = written == out_len;
            if (writable) out_len = written = 0;
        }
        struct epoll_event events[2];
        int told = epoll_wait(s->epoll, events, 2, -1);
        for (int i = 0; i < told; i++) {
            if (events[i].data.fd == s->in) {
                writable = true;
                continue;
            }
            ssize_t got = read(s->out, buffer + left, sizeof buffer - left);
            if (got <= 0) die("read");
            left += (size_t)got;
            long found = floor_answers(buffer, &left);
            done += found;
            /* A request is made only when there is room for it, whatever the pipe does. */
            if (out_len < sizeof out / 2) allowed = done + width;
        }
    }
    took.seconds = now() - took.seconds;
    took.cpu = cpu() - took.cpu;
    return took;
}

static void seq(long count) {
    struct server s = launch(NULL, NULL);
    double *us = doubles(count);
    for (long i = 0; i < count / 10 + 1; i++) one_call(&s);
    double begun = now(), used = cpu();
    for (long i = 0; i < count; i++) {
        double t = now();
        one_call(&s);
        us[i] = (now() - t) * 1e6;
    }
    double took = now() - begun;
    used = cpu() - used;
    printf("{\"calls_s\":%.0f,\"p50_us\":%.3f,\"p99_us\":%.3f,\"cpu_us\":%.4f,\"threads\":%ld}\n", (double)count / took,
           quantile(us, (size_t)count, 0.5), quantile(us, (size_t)count, 0.99), used / (double)count * 1e6, status_of("Threads"));
}

/* Calls with answers of `bytes`. */
static void sized(long bytes, char *kind, long width, long count) {
    char payload[64];
    snprintf(payload, sizeof payload, "payload=%ld", bytes);
    struct server s = launch(payload, kind);
    struct took (*run)(const struct server *, long, long) = work && bytes == 32 ? worked : pipelined;
    run(&s, width, count / 10 + 1);
    struct took t = run(&s, width, count);
    printf("{\"calls_s\":%.0f,\"cpu_us\":%.4f,\"MB_s\":%.1f,\"hwm_kb\":%ld}\n", (double)count / t.seconds,
           t.cpu / (double)count * 1e6, (double)t.bytes / t.seconds / 1e6, status_of("VmHWM"));
}

static void flood(long count) {
    char notify[64];
    snprintf(notify, sizeof notify, "notify=%ld", count);
    struct server s = launch(notify, NULL);
    bool ignored;
    one_call(&s);
    double begun = now(), used = cpu();
    if (put(s.in, FLOOD, sizeof FLOOD - 1) != sizeof FLOOD - 1) die("a short write");
    size_t left = 0;
    for (long seen = 0; seen < (work ? count : count + 1);) {
        if (!work) {
            seen += get(&s, NULL, &ignored);
            continue;
        }
        struct epoll_event event;
        epoll_wait(s.epoll, &event, 1, -1);
        ssize_t got = read(s.out, buffer + left, sizeof buffer - left);
        if (got == 0 || (got < 0 && errno != EAGAIN)) die("read");
        if (got > 0) left += (size_t)got, seen += floor_answers(buffer, &left);
    }
    double took = now() - begun;
    used = cpu() - used;
    printf("{\"msgs_s\":%.0f,\"cpu_us\":%.4f,\"hwm_kb\":%ld,\"delivered\":%ld}\n", (double)count / took,
           used / (double)count * 1e6, status_of("VmHWM"), count);
}

static void idle(long count) {
    double begun = now();
    for (long i = 0; i < count; i++) {
        struct server s = launch(NULL, NULL);
        one_call(&s);
    }
    double connect = now() - begun;
    usleep(500000);
    double used = cpu();
    usleep(2000000);
    printf("{\"rss_kb\":%ld,\"threads\":%ld,\"connect_ms\":%.2f,\"idle_cpu_ms_s\":%.3f}\n", status_of("VmRSS"),
           status_of("Threads"), connect * 1e3, (cpu() - used) / 2 * 1e3);
}

/* From the answer of a server that ends itself to the first answer of the next one. */
static void restart(long count) {
    double *ms = doubles(count), *detect = doubles(count);
    struct server s = launch("crash=1", NULL);
    bool ignored;
    one_call(&s);
    for (long i = 0; i < count; i++) {
        double answered = now();
        watch(s.epoll, s.pidfd, EPOLLIN);
        bool ended = false, exited = false;
        while (!ended || !exited) {
            struct epoll_event events[3];
            int told = epoll_wait(s.epoll, events, 3, -1);
            if (detect[i] == 0) detect[i] = (now() - answered) * 1e6;
            for (int j = 0; j < told; j++) {
                siginfo_t info;
                int fd = events[j].data.fd;
                if (fd == s.in) continue;
                if (fd == s.pidfd) exited = waitid(P_PIDFD, (id_t)s.pidfd, &info, WEXITED) == 0;
                else if (read(s.out, buffer, sizeof buffer) == 0) ended = true;
                else continue;
                epoll_ctl(s.epoll, EPOLL_CTL_DEL, fd, NULL);
            }
        }
        close(s.in), close(s.out), close(s.pidfd), close(s.epoll);
        s = launch("crash=1", NULL);
        put(s.in, request, request_len);
        while (get(&s, NULL, &ignored) == 0) {}
        ms[i] = (now() - answered) * 1e3;
    }
    printf("{\"restart_ms\":%.4f,\"restart_p99_ms\":%.4f,\"detect_us\":%.2f}\n", quantile(ms, (size_t)count, 0.5),
           quantile(ms, (size_t)count, 0.99), quantile(detect, (size_t)count, 0.5));
}

static void spawns(long count, long mib) {
    double *call = doubles(count), *answer = doubles(count);
    char *argv[] = {(char *)program, NULL};
    fatten(mib);
    for (long i = 0; i < count; i++) {
        int in[2], out[2];
        double begun = now();
        if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) die("pipe2");
        pid_t pid = spawn(argv, in, out);
        call[i] = (now() - begun) * 1e6;
        put(in[1], request, request_len);
        if (read(out[0], buffer, sizeof buffer) <= 0) die("read");
        answer[i] = (now() - begun) * 1e6;
        close(in[0]), close(in[1]), close(out[0]), close(out[1]);
        waitpid(pid, NULL, 0);
    }
    printf("{\"call_us\":%.2f,\"call_p99_us\":%.2f,\"first_answer_us\":%.2f}\n", quantile(call, (size_t)count, 0.5),
           quantile(call, (size_t)count, 0.99), quantile(answer, (size_t)count, 0.5));
}

/* One caller and its clock, for `fair`. */
struct caller {
    struct server server;
    double sent;
};

static void ask(struct caller *c) {
    c->sent = now();
    if (put(c->server.in, request, request_len) != request_len) die("a short write");
}

/* `wanted` calls, of one server after the other or of all at once, while each turn reads what there is of everyone. */
static double p99_of(struct caller *all, long count, int epoll, long wanted, bool at_once, double *p50) {
    double *us = doubles(wanted);
    long done = 0, asked = 0;
    for (long i = 0; i < (at_once ? count : 1); i++, asked++) ask(&all[i]);
    while (done < wanted) {
        struct epoll_event events[64];
        int told = epoll_wait(epoll, events, 64, -1);
        for (int i = 0; i < told && done < wanted; i++) {
            uint64_t which = events[i].data.u64;
            ssize_t got = read(all[which].server.out, buffer, sizeof buffer);
            if (got <= 0) die("read");
            long found = lines_in(buffer, (size_t)got);
            if (which == (uint64_t)count || !found) continue; /* the flood */
            us[done++] = (now() - all[which].sent) * 1e6;
            if (asked < wanted) ask(&all[at_once ? which : (which + 1) % (uint64_t)count]), asked++;
        }
    }
    *p50 = quantile(us, (size_t)wanted, 0.5);
    double p99 = quantile(us, (size_t)wanted, 0.99);
    free(us);
    return p99;
}

/* The last server floods; what that does to the calls of the others. */
static void fair(long count, long rounds) {
    struct caller *all = calloc((size_t)count, sizeof *all);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!all || epoll < 0) die("epoll_create1");
    for (long i = 0; i < count; i++) {
        all[i].server = launch(i == count - 1 ? "notify=2000000000" : NULL, NULL);
        one_call(&all[i].server);
        struct epoll_event e = {.events = EPOLLIN, .data.u64 = (uint64_t)i};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].server.out, &e)) die("epoll_ctl");
    }
    double one[2], one_p50[2], at_once[2], at_once_p50[2];
    long wanted = rounds * (count - 1);
    for (int flooding = 0; flooding < 2; flooding++) {
        if (flooding && put(all[count - 1].server.in, FLOOD, sizeof FLOOD - 1) == 0) die("a short write");
        one[flooding] = p99_of(all, count - 1, epoll, wanted, false, &one_p50[flooding]);
        at_once[flooding] = p99_of(all, count - 1, epoll, wanted, true, &at_once_p50[flooding]);
    }
    printf("{\"one_p50_us\":%.2f,\"one_p99_us\":%.2f,\"one_flood_p50_us\":%.2f,\"one_flood_p99_us\":%.2f,\"all_p50_us\":%.2f,"
           "\"all_p99_us\":%.2f,\"all_flood_p50_us\":%.2f,\"all_flood_p99_us\":%.2f}\n",
           one_p50[0], one[0], one_p50[1], one[1], at_once_p50[0], at_once[0], at_once_p50[1], at_once[1]);
    for (long i = 0; i < count; i++) kill(all[i].server.pid, SIGKILL);
}

int main(int argc, char **argv) {
    if (argc < 4) return fprintf(stderr, "usage: floor SCENARIO SERVER NUMBER...\n"), 2;
    const char *scenario = argv[1], *wanted = getenv("FLOOR_REQUEST"), *bytes = getenv("FLOOR_PIPE");
    long n[3] = {0, 0, 0};
    program = argv[2];
    for (int i = 3; i < argc && i < 6; i++) n[i - 3] = strtol(argv[i], NULL, 10);
    if (wanted && !strcmp(wanted, "stamped")) request = STAMPED, request_len = sizeof STAMPED - 1;
    parse = getenv("FLOOR_PARSE") != NULL;
    work = getenv("FLOOR_WORK") != NULL;
    pipe_bytes = bytes ? strtol(bytes, NULL, 10) : 0;
    requests = malloc(MOST_WIDTH * request_len);
    for (size_t i = 0; i < MOST_WIDTH; i++) memcpy(requests + i * request_len, request, request_len);
    if (!strcmp(scenario, "seq")) seq(n[0]);
    else if (!strcmp(scenario, "pipe")) sized(32, NULL, n[0], n[1]);
    else if (!strcmp(scenario, "bulk")) sized(1 << 20, NULL, n[0], n[1]);
    else if (!strcmp(scenario, "dense")) sized(1 << 20, "dense", n[0], n[1]);
    else if (!strcmp(scenario, "size")) sized(n[0], NULL, n[1], n[2]);
    else if (!strcmp(scenario, "flood")) flood(n[0]);
    else if (!strcmp(scenario, "idle")) idle(n[0]);
    else if (!strcmp(scenario, "restart")) restart(n[0]);
    else if (!strcmp(scenario, "spawn")) spawns(n[0], n[1]);
    else if (!strcmp(scenario, "fair")) fair(n[0], n[1]);
    else return fprintf(stderr, "no scenario %s\n", scenario), 2;
    return 0;
}
