#include "options.h"

#include <mcp_supervised.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In pieces: C compilers need not take string literals of any length. */
static const char *const HELP[] = {
    "Usage: supervise [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
    "\n"
    "Runs an MCP server that speaks on its standard streams, and starts it again when it dies, but only so often. Lines\n"
    "from stdin go to the server; what the server says goes to stdout, byte for byte, one message a line; what happens to\n"
    "the server is told on stderr. Nothing is added to the conversation: whoever talked to the server through a pipe can\n"
    "talk to supervise instead.\n"
    "\n"
    "PROGRAM is searched in PATH; no shell is involved. Options end at -- or at PROGRAM. --name VALUE is also --name=VALUE.\n",
    "\n"
    "Restarting\n"
    "  --max-restarts N        restarts in one window; the next death in it is the end, with exit status 4 (default 3).\n"
    "                          N may be `unlimited`, or `none`: the first death is the end\n"
    "  --delay MS              from a death to the replacement (default 100)\n"
    "  --window MS             the window opens with the first restart; when it is over the count begins anew\n"
    "                          (default 60000). --max-restarts times --delay must be less, or nothing would be given up\n"
    "\n"
    "The server\n"
    "  --env NAME=VALUE        a variable for the server (may be repeated)\n"
    "  --env-mode MODE         what it inherits: `safe` (default: HOME LOGNAME PATH SHELL TERM USER LANG LC_* TMPDIR),\n"
    "                          `inherit` (everything) or `empty`; --env is added to that\n"
    "  --cwd DIR               its working directory (default: this one)\n"
    "  --stderr MODE           where its stderr goes: `log` (default: each line to our stderr behind `[server]`, and the\n"
    "                          last ones again when it dies), `inherit` (our stderr as it is) or `null` (nowhere)\n",
    "\n"
    "Ending\n"
    "  --close-grace MS        from the end of its input to SIGTERM (default 6000; `never`)\n"
    "  --kill-grace MS         from SIGTERM to SIGKILL (default 2000; `never`)\n"
    "\n"
    "The rest\n"
    "  --max-queue BYTES       what may wait for a server that does not read; then stdin is not read either. Also the\n"
    "                          longest line that is sent (default 67108864)\n"
    "  --json                  every event as a JSON object on stdout, one a line, instead of the server's lines; then\n"
    "                          nothing is told on stderr\n"
    "  --verbose               also the library's own log lines\n"
    "  --help, --version\n",
    "\n"
    "What becomes of a line\n"
    "  Lines wait while there is no server to take them, and go to the replacement. Lines that were passed on to a server\n"
    "  that died are never sent again, since it may have acted on them: those it cannot have read are counted for you, and\n"
    "  repeating them is safe. A line that is not JSON-RPC is reported with its number and left out. A line of the server\n"
    "  that is not JSON-RPC is reported and does not reach stdout.\n"
    "\n"
    "Ending it\n"
    "  At the end of stdin the server gets what was read and then the end of its input; what it answers within the graces\n"
    "  is printed. SIGINT, SIGTERM and SIGHUP do the same at once; a second one kills the server. A server that exits by\n"
    "  itself has died, whatever its exit code.\n"
    "\n"
    "Exit status\n"
    "  0  ended because it was asked to\n"
    "  1  ended without grace: by a second signal, or because stdout could not be written\n"
    "  2  a mistake in the command line\n"
    "  3  the server could not be started\n"
    "  4  the server died too often\n",
    "\n"
    "Example: the tools of a server of the npm registry\n"
    "    supervise -- npx -y @modelcontextprotocol/server-everything <<'END'\n"
    "    {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\","
    "\"capabilities\":{},\"clientInfo\":{\"name\":\"me\",\"version\":\"1\"}}}\n"
    "    {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n"
    "    {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}\n"
    "    END\n",
    "\n"
    "Reading what is told\n"
    "    supervise: started npx (pid 4711)                 it runs\n"
    "    [server] listening                                a line of its stderr\n"
    "    supervise: the server died: exit code 1, after 2.5 s (pid 4711)\n"
    "    supervise: restart 1 of 3 in 100 ms               the first of three in this window\n"
    "    supervise: replaced (pid 4712)                    lines that waited go to this one\n"
    "    supervise: given up: ...                          the budget is spent; exit status 4\n"
    "  With --json the same as objects; \"event\" is started, message, log, error, refused, drain, close, reconnect,\n"
    "  writable, exhausted, closing or end. Times are milliseconds, `line` is the server's message as it came.\n",
};

void usage_error(const char *format, ...) {
    fputs("supervise: ", stderr);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputs("\nTry `supervise --help`.\n", stderr);
    exit(USAGE_ERROR);
}

/* Help is an answer, so a stdout that cannot take it is a failure. */
static void leave_after_printing(void) {
    if (fflush(stdout) != 0) {
        perror("supervise: stdout");
        exit(ENDED_ROUGHLY);
    }
    exit(ENDED_WELL);
}

/* A whole decimal number; no sign, no space, no other base. */
static uint64_t number(const char *option, const char *value, const char *what, uint64_t least, uint64_t most) {
    uint64_t sum = 0;
    if (*value == '\0') {
        usage_error("%s: the value is empty, it must be a %s", option, what);
    }
    for (const char *at = value; *at != '\0'; at++) {
        if (*at < '0' || *at > '9') {
            usage_error("%s: `%s` is no %s", option, value, what);
        }
        uint64_t digit = (uint64_t)(*at - '0');
        if (sum > (most - digit) / 10) {
            usage_error("%s: %s is too large", option, value);
        }
        sum = sum * 10 + digit;
    }
    if (sum < least) {
        usage_error("%s: %s is too small", option, value);
    }
    return sum;
}

/* The largest value means "never" to the library and is asked for by name. */
static uint64_t milliseconds(const char *option, const char *value, uint64_t least) {
    return number(option, value, "number of milliseconds", least, UINT64_MAX - 1);
}

static uint64_t grace(const char *option, const char *value) {
    return strcmp(value, "never") == 0 ? UINT64_MAX : milliseconds(option, value, 0);
}

static uint32_t restarts(const char *option, const char *value) {
    if (strcmp(value, "unlimited") == 0) {
        return MCP_SUPERVISED_UNLIMITED;
    }
    if (strcmp(value, "none") == 0) {
        return MCP_SUPERVISED_NO_RESTART;
    }
    const char *what = "number of restarts, nor `unlimited` or `none`";
    uint64_t count = number(option, value, what, 0, MCP_SUPERVISED_NO_RESTART - 1);
    if (count == 0) {
        usage_error("%s: for no restarts say `none`", option);
    }
    return (uint32_t)count;
}

struct choice {
    const char *name;
    uint32_t value;
};

static uint32_t choice(const char *option, const char *value, const struct choice choices[3]) {
    for (int i = 0; i < 3; i++) {
        if (strcmp(value, choices[i].name) == 0) {
            return choices[i].value;
        }
    }
    usage_error("%s: `%s` is none of %s, %s and %s", option, value, choices[0].name, choices[1].name, choices[2].name);
    return 0;
}

static const struct choice STDERR_MODES[3] = {
    {"log", MCP_SUPERVISED_STDERR_LOG},
    {"inherit", MCP_SUPERVISED_STDERR_INHERIT},
    {"null", MCP_SUPERVISED_STDERR_NULL},
};
static const struct choice ENV_MODES[3] = {
    {"safe", MCP_SUPERVISED_ENV_SAFE},
    {"inherit", MCP_SUPERVISED_ENV_INHERIT},
    {"empty", MCP_SUPERVISED_ENV_EMPTY},
};

/* An option without a value. False if there is none of that name. */
static bool take_switch(struct options *options, const char *name) {
    if (strcmp(name, "--json") == 0) {
        options->json = true;
    } else if (strcmp(name, "--verbose") == 0) {
        options->verbose = true;
    } else if (strcmp(name, "--help") == 0) {
        for (size_t i = 0; i < sizeof HELP / sizeof HELP[0]; i++) {
            fputs(HELP[i], stdout);
        }
        leave_after_printing();
    } else if (strcmp(name, "--version") == 0) {
        printf("supervise (libmcp_supervised %s)\n", mcp_supervised_version());
        leave_after_printing();
    } else {
        return false;
    }
    return true;
}

static const char *const WITH_VALUE[] = {
    "--max-restarts", "--delay", "--window",    "--env",       "--env-mode",
    "--cwd",          "--stderr", "--close-grace", "--kill-grace", "--max-queue",
};

static bool takes_value(const char *name) {
    for (size_t i = 0; i < sizeof WITH_VALUE / sizeof WITH_VALUE[0]; i++) {
        if (strcmp(name, WITH_VALUE[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void take_value(struct options *options, const char *name, const char *value) {
    if (strcmp(name, "--max-restarts") == 0) {
        options->max_restarts = restarts(name, value);
    } else if (strcmp(name, "--delay") == 0) {
        options->delay_ms = milliseconds(name, value, 0);
    } else if (strcmp(name, "--window") == 0) {
        options->window_ms = milliseconds(name, value, 1);
    } else if (strcmp(name, "--close-grace") == 0) {
        options->close_grace_ms = grace(name, value);
    } else if (strcmp(name, "--kill-grace") == 0) {
        options->kill_grace_ms = grace(name, value);
    } else if (strcmp(name, "--max-queue") == 0) {
        options->max_queue = number(name, value, "number of bytes", 2, 1 << 30);
    } else if (strcmp(name, "--stderr") == 0) {
        options->stderr_mode = choice(name, value, STDERR_MODES);
    } else if (strcmp(name, "--env-mode") == 0) {
        options->env_mode = choice(name, value, ENV_MODES);
    } else if (strcmp(name, "--cwd") == 0) {
        if (*value == '\0') {
            usage_error("%s: the value is empty, it must be a directory", name);
        }
        options->cwd = value;
    } else {
        /* The text is not repeated: it may be a secret whose name was forgotten. */
        if (strchr(value, '=') == NULL || *value == '=') {
            usage_error("%s: the value is not NAME=VALUE", name);
        }
        options->env[options->env_count++] = value;
    }
}

/* The library refuses this too, but does not know our options. */
static void check_together(const struct options *options) {
    uint32_t max = options->max_restarts;
    bool limited = max != MCP_SUPERVISED_UNLIMITED && max != MCP_SUPERVISED_NO_RESTART;
    if (limited && options->delay_ms > (options->window_ms - 1) / max) {
        usage_error("--max-restarts times --delay is not less than --window: a server that cannot be started would be\n"
                    "tried for ever. Ask for that with --max-restarts unlimited");
    }
}

void options_parse(struct options *options, int argc, char **argv) {
    *options = (struct options){
        .max_restarts = 3,
        .delay_ms = 100,
        .window_ms = 60000,
        .close_grace_ms = 6000,
        .kill_grace_ms = 2000,
        .max_queue = 64 << 20,
        .stderr_mode = MCP_SUPERVISED_STDERR_LOG,
        .env_mode = MCP_SUPERVISED_ENV_SAFE,
        .env = calloc((size_t)argc + 1, sizeof *options->env),
    };
    if (options->env == NULL) {
        perror("supervise");
        exit(ENDED_ROUGHLY);
    }
    int at = 1;
    for (; at < argc && argv[at][0] == '-' && argv[at][1] != '\0'; at++) {
        char *name = argv[at];
        if (strcmp(name, "--") == 0) {
            at++;
            break;
        }
        if (take_switch(options, name)) {
            continue;
        }
        const char *value = NULL;
        char *equals = strchr(name, '=');
        if (equals != NULL) {
            *equals = '\0';
            value = equals + 1;
        }
        if (!takes_value(name)) {
            bool known = strcmp(name, "--json") == 0 || strcmp(name, "--verbose") == 0 || strcmp(name, "--help") == 0 ||
                         strcmp(name, "--version") == 0;
            usage_error(known ? "%s takes no value" : "unknown option %s", name);
        }
        if (value == NULL) {
            if (++at >= argc) {
                usage_error("%s needs a value", name);
            }
            value = argv[at];
        }
        take_value(options, name, value);
    }
    if (at >= argc) {
        usage_error("no program was given");
    }
    options->command = argv + at;
    check_together(options);
}
