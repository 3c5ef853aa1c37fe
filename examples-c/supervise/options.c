#include "options.h"

#include <mcp_supervised.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

/* In pieces: C compilers need not take string literals of any length. */
static const char *const HELP[] = {
    "Usage: supervise [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
    "       supervise --list | --call TOOL | --listen WHAT [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
    "\n"
    "Runs an MCP server that speaks on its standard streams, and starts it again when it dies, but only so often. Lines\n"
    "from stdin go to the server; what the server says goes to stdout, byte for byte, one message a line; what happens to\n"
    "the server is told on stderr. Nothing is added to the conversation: whoever talked to the server through a pipe can\n"
    "talk to supervise instead.\n"
    "\n"
    "With --list, --call or --listen it is the client itself: it asks, shows the answer, and ends the server. stdin is not\n"
    "read then, and stderr tells only what goes wrong. The server may speak MCP 2026-07-28 or any revision before it.\n"
    "\n"
    "PROGRAM is searched in PATH; no shell is involved. Options end at -- or at PROGRAM. --name VALUE is also --name=VALUE.\n",
    "\n"
    "As a client\n"
    "  --list                  what the server is, and all its tools, resources and prompts\n"
    "  --call TOOL             calls a tool and prints the text of its result; of images and the like only what they are.\n"
    "                          Progress is shown while stderr is a terminal\n"
    "  --args JSON             the arguments of the call, a JSON object (default {})\n"
    "  --listen WHAT           prints a line for each notification, until a signal ends it; a restart does not. WHAT is\n"
    "                          `tools`, `prompts` or `resources` for changes of these lists, `resources=URI` for changes\n"
    "                          of that resource, or several of them with commas between\n"
    "  --timestamps            the time, in UTC, before each of these lines\n"
    "  --speak WHAT            `auto` (default): what the server speaks is found out; `modern`: MCP 2026-07-28;\n"
    "                          `legacy`: a revision before it, with a handshake\n"
    "  --timeout MS            how long an answer may take; progress of a call begins it anew, up to ten minutes in all\n"
    "                          (default 60000; `never`)\n"
    "  --retry                 of --list: what was asked when the server died is asked again of the replacement\n",
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
    "  --json                  every event as a JSON object on stdout, one a line, instead of anything else; then nothing\n"
    "                          is told on stderr\n"
    "  --verbose               also the library's own log lines; of a client also progress and what goes as it should\n"
    "  --help, --version\n",
    "\n"
    "What becomes of a line\n"
    "  Lines wait while there is no server to take them, and go to the replacement. Lines that were passed on to a server\n"
    "  that died are never sent again, since it may have acted on them: those it cannot have read are counted for you, and\n"
    "  repeating them is safe. A line that is not JSON-RPC is reported with its number and left out. A line of the server\n"
    "  that is not JSON-RPC is reported and does not reach stdout.\n"
    "\n"
    "What becomes of a call\n"
    "  A call is sent once. When the server dies under it, or is too slow, the exit status is 6, and you are told whether\n"
    "  the dead server can have read it: if it cannot, repeating it is safe. What only reads may be repeated in any case,\n"
    "  which --retry does. A stream of notifications is opened again at each replacement; what happened while there was\n"
    "  none is not known, so read again what you keep.\n"
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
    "  4  the server died too often\n"
    "  5  as a client: the server answered with an error, the tool says that it failed, or the server ended the stream\n"
    "  6  as a client: there is no answer, because the server died or was too slow, or because a signal came first\n",
    "\n"
    "Examples\n"
    "    supervise --list -- my-server --stdio\n"
    "    supervise --call search --args '{\"query\":\"otters\"}' -- my-server --stdio\n"
    "    supervise --listen tools,resources=file:///etc/motd -- my-server --stdio\n"
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
    "    supervise: it speaks MCP 2025-11-25, ...          --list, --call and --listen ask any server\n"
    "    [server] listening                                a line of its stderr\n"
    "    supervise: the server died: exit code 1, after 2.5 s (pid 4711)\n"
    "    supervise: restart 1 of 3 in 100 ms               the first of three in this window\n"
    "    supervise: replaced (pid 4712)                    lines that waited go to this one\n"
    "    supervise: given up: ...                          the budget is spent; exit status 4\n"
    "  With --json the same as objects; \"event\" is started, ready, request, message, log, error, refused, drain, close,\n"
    "  reconnect, writable, exhausted, closing or end. Times are milliseconds, `line` is the server's message as it came,\n"
    "  `request` the number that joins a request with what belongs to it.\n",
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

static const struct choice SPEAK_MODES[3] = {
    {"auto", MCP_SUPERVISED_MODE_AUTO},
    {"modern", MCP_SUPERVISED_MODE_MODERN},
    {"legacy", MCP_SUPERVISED_MODE_LEGACY},
};

static void set_mode(struct options *options, enum mode mode) {
    if (options->mode != PASS_LINES && !(mode == LISTEN && options->mode == LISTEN)) {
        usage_error("only one of --list, --call and --listen can be asked for, once");
    }
    options->mode = mode;
}

/* An option without a value. False if there is none of that name. */
static bool take_switch(struct options *options, const char *name) {
    if (strcmp(name, "--json") == 0) {
        options->json = true;
    } else if (strcmp(name, "--verbose") == 0) {
        options->verbose = true;
    } else if (strcmp(name, "--list") == 0) {
        set_mode(options, LIST);
    } else if (strcmp(name, "--retry") == 0) {
        options->retry = true;
    } else if (strcmp(name, "--timestamps") == 0) {
        options->timestamps = true;
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
    "--call",         "--args",   "--listen",      "--timeout",    "--speak",
};

static bool takes_value(const char *name) {
    for (size_t i = 0; i < sizeof WITH_VALUE / sizeof WITH_VALUE[0]; i++) {
        if (strcmp(name, WITH_VALUE[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether a list of things to listen to goes on with one of its words. */
static size_t listen_word(const char *text, const char *word) {
    size_t len = strlen(word);
    return strncmp(text, word, len) == 0 && (text[len] == '\0' || text[len] == ',') ? len : 0;
}

static bool begins_item(const char *text) {
    return listen_word(text, "tools") || listen_word(text, "prompts") || listen_word(text, "resources") ||
           strncmp(text, "resources=", 10) == 0;
}

struct listening {
    bool tools;
    bool prompts;
    bool resources;
    struct text uris; /* JSON strings with commas */
    size_t count;
};

/* A comma ends a URI only if one of the words follows it: it may have commas itself. */
static void take_listen(struct listening *listening, const char *value) {
    const char *at = value;
    for (;;) {
        size_t len = 0;
        if ((len = listen_word(at, "tools")) > 0) {
            listening->count += !listening->tools;
            listening->tools = true;
        } else if ((len = listen_word(at, "prompts")) > 0) {
            listening->count += !listening->prompts;
            listening->prompts = true;
        } else if ((len = listen_word(at, "resources")) > 0) {
            listening->count += !listening->resources;
            listening->resources = true;
        } else if (strncmp(at, "resources=", 10) == 0 && at[10] != '\0' && at[10] != ',') {
            for (len = 10; at[len] != '\0' && !(at[len] == ',' && begins_item(at + len + 1)); len++) {
            }
            text_put(&listening->uris, text_len(&listening->uris) > 0 ? "," : "");
            text_json(&listening->uris, at + 10, len - 10);
            listening->count++;
        } else {
            usage_error("--listen: `%s` is none of tools, prompts, resources and resources=URI", at);
        }
        if (at[len] == '\0') {
            return;
        }
        at += len + 1;
    }
}

static void make_filter(struct options *options, struct listening *listening) {
    struct text *filter = &options->filter;
    text_put(filter, "{");
    text_put(filter, listening->tools ? "\"toolsListChanged\":true," : "");
    text_put(filter, listening->prompts ? "\"promptsListChanged\":true," : "");
    text_put(filter, listening->resources ? "\"resourcesListChanged\":true," : "");
    text_put(filter, "\"resourceSubscriptions\":[");
    text_add(filter, text_begin(&listening->uris), text_len(&listening->uris));
    text_put(filter, "]}");
    options->listen_count = listening->count;
    text_free(&listening->uris);
}

/* Whatever it is, it becomes a part of a request, and must stay in its place there. */
static void check_arguments(const char *text) {
    struct json json = json_of(text, strlen(text));
    bool is_object = json_kind(&json) == JSON_OBJECT;
    json_skip(&json);
    if (!is_object || !json_done(&json)) {
        usage_error("--args: the value is not a JSON object");
    }
}

static void take_value(struct options *options, struct listening *listening, const char *name, const char *value) {
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
    } else if (strcmp(name, "--call") == 0) {
        if (*value == '\0') {
            usage_error("%s: the value is empty, it must be the name of a tool", name);
        }
        set_mode(options, CALL);
        options->tool = value;
    } else if (strcmp(name, "--args") == 0) {
        check_arguments(value);
        options->arguments = value;
    } else if (strcmp(name, "--listen") == 0) {
        set_mode(options, LISTEN);
        take_listen(listening, value);
    } else if (strcmp(name, "--timeout") == 0) {
        options->timeout_ms = strcmp(value, "never") == 0 ? UINT64_MAX : milliseconds(name, value, 1);
    } else if (strcmp(name, "--stderr") == 0) {
        options->stderr_mode = choice(name, value, STDERR_MODES);
    } else if (strcmp(name, "--speak") == 0) {
        options->speak = choice(name, value, SPEAK_MODES);
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
    if (options->speak != 0 && options->mode == PASS_LINES) {
        usage_error("--speak is for --list, --call and --listen: other lines are passed on as they are");
    }
    if (options->arguments != NULL && options->mode != CALL) {
        usage_error("--args are the arguments of a --call");
    }
    if (options->timestamps && (options->mode != LISTEN || options->json)) {
        usage_error("--timestamps are for the lines of --listen%s", options->json ? ", not for --json" : "");
    }
    if (options->timeout_ms != 0 && options->mode != LIST && options->mode != CALL) {
        usage_error(options->mode == LISTEN ? "--timeout: a stream has no deadline"
                                            : "--timeout is for --list and --call: of other lines no answer is awaited");
    }
    if (options->retry && options->mode != LIST) {
        usage_error(options->mode == CALL     ? "--retry: a call is never sent twice, the server may have acted on it"
                    : options->mode == LISTEN ? "--retry: a stream is opened again in any case"
                                              : "--retry is for --list: other lines are never sent twice");
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
    struct listening listening = {0};
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
                         strcmp(name, "--version") == 0 || strcmp(name, "--list") == 0 || strcmp(name, "--retry") == 0 ||
                         strcmp(name, "--timestamps") == 0;
            usage_error(known ? "%s takes no value" : "unknown option %s", name);
        }
        if (value == NULL) {
            if (++at >= argc) {
                usage_error("%s needs a value", name);
            }
            value = argv[at];
        }
        take_value(options, &listening, name, value);
    }
    if (at >= argc) {
        usage_error("no program was given");
    }
    options->command = argv + at;
    make_filter(options, &listening);
    check_together(options);
}
