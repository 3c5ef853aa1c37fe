package supervised

// #include <stdlib.h>
// #include <mcp_supervised.h>
import "C"

import (
	"context"
	"encoding/json"
	"sort"
	"time"
	"unsafe"
)

// Mode is how much of the protocol is spoken.
type Mode uint32

const (
	Auto   Mode = C.MCP_SUPERVISED_MODE_AUTO
	Modern Mode = C.MCP_SUPERVISED_MODE_MODERN
	Legacy Mode = C.MCP_SUPERVISED_MODE_LEGACY
	Raw    Mode = C.MCP_SUPERVISED_MODE_RAW
)

// EnvMode is what a server's environment starts from.
type EnvMode uint32

const (
	SafeEnv    EnvMode = C.MCP_SUPERVISED_ENV_SAFE
	InheritEnv EnvMode = C.MCP_SUPERVISED_ENV_INHERIT
	EmptyEnv   EnvMode = C.MCP_SUPERVISED_ENV_EMPTY
)

// StderrMode is where a server's stderr goes.
type StderrMode uint32

const (
	LogStderr     StderrMode = C.MCP_SUPERVISED_STDERR_LOG
	InheritStderr StderrMode = C.MCP_SUPERVISED_STDERR_INHERIT
	NullStderr    StderrMode = C.MCP_SUPERVISED_STDERR_NULL
)

// Limit is a bound of one server.
type Limit uint32

const (
	EventQueueLimit    Limit = C.MCP_SUPERVISED_LIMIT_EVENT_QUEUE
	EventBytesLimit    Limit = C.MCP_SUPERVISED_LIMIT_EVENT_BYTES
	OutboundBytesLimit Limit = C.MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES
	FrameBytesLimit    Limit = C.MCP_SUPERVISED_LIMIT_FRAME_BYTES
	GrammarBytesLimit  Limit = C.MCP_SUPERVISED_LIMIT_GRAMMAR_BYTES
	LogLinesLimit      Limit = C.MCP_SUPERVISED_LIMIT_LOG_LINES
	LogLineBytesLimit  Limit = C.MCP_SUPERVISED_LIMIT_LOG_LINE_BYTES
	MaxInFlightLimit   Limit = C.MCP_SUPERVISED_LIMIT_MAX_IN_FLIGHT
)

const (
	// Unlimited restarts for ever.
	Unlimited uint32 = C.MCP_SUPERVISED_UNLIMITED
	// NoRestart never restarts.
	NoRestart uint32 = C.MCP_SUPERVISED_NO_RESTART
)

// Restart is a restart budget: at most Max replacements per Window, each Delay after the death before it.
type Restart struct {
	Max           uint32
	Delay, Window time.Duration
}

// Spec is what the connections of a server are made from. Everything but Command may be left out.
type Spec struct {
	Command string
	Args    []string
	Dir     string
	EnvMode EnvMode
	Env     map[string]string
	Mode    Mode

	// What the server is told of the client.
	ClientName, ClientVersion string
	ClientCapabilities        any

	Restart *Restart
	// CloseGrace and KillGrace tell how patiently a server is ended; set both or none.
	CloseGrace, KillGrace time.Duration
	// Timeout without a sign of the request, and MaxTimeout in all. 0 is the default, Never none.
	Timeout, MaxTimeout time.Duration
	// How long a server may take to begin. 0 is the default, Never none.
	ProbeTimeout, StartTimeout time.Duration

	RetryLostRequests bool
	Rediscover        bool
	Shed              bool
	ServerLogLevel    string
	Stderr            StderrMode
	Limits            map[Limit]uint64

	// OnEvent gets every event that belongs to no call, no stream and no request of the server: Ready, Close, Reconnect,
	// Exhausted, Log and so on, one after the other, on a goroutine of its own. It may call whatever it likes. While it is slow
	// and nobody waits for an answer or an end, the host takes nothing more from any server.
	OnEvent func(*Event)
	// OnRequest answers what servers of older revisions ask (what ClientCapabilities declares). A *RemoteError is passed on with
	// its code. Each request has a goroutine of its own; the context ends with the server's connection. nil refuses everything.
	OnRequest func(ctx context.Context, method string, params json.RawMessage) (any, error)
}

// text lends a Go string to one C call, which copies it.
func text(s string) (*C.char, C.size_t) {
	if s == "" {
		return nil, 0
	}
	b := []byte(s)
	return (*C.char)(unsafe.Pointer(&b[0])), C.size_t(len(b))
}

func (s *Spec) build() (*C.mcp_supervised_spec, error) {
	var raw *C.mcp_supervised_spec
	at, length := text(s.Command)
	if status := C.mcp_supervised_spec_new(at, length, &raw); status < 0 {
		return nil, &Error{Status: Status(status), Text: "the command cannot be used"}
	}
	var failed error
	note := func(what string, status C.int32_t) {
		if status < 0 && failed == nil {
			failed = &Error{Status: Status(status), Text: what + " cannot be used"}
		}
	}
	ms := func(d time.Duration) C.uint64_t {
		result, err := millis(d)
		if err != nil && failed == nil {
			failed = err
		}
		return result
	}
	for _, arg := range s.Args {
		at, length := text(arg)
		note("an argument", C.mcp_supervised_spec_arg(raw, at, length))
	}
	if s.Dir != "" {
		at, length := text(s.Dir)
		note("the directory", C.mcp_supervised_spec_cwd(raw, at, length))
	}
	if s.EnvMode != 0 {
		note("EnvMode", C.mcp_supervised_spec_env_mode(raw, C.uint32_t(s.EnvMode)))
	}
	names := make([]string, 0, len(s.Env))
	for name := range s.Env {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		name_at, name_length := text(name)
		at, length := text(s.Env[name])
		note("the variable "+name, C.mcp_supervised_spec_env(raw, name_at, name_length, at, length))
	}
	if s.Mode != 0 {
		note("Mode", C.mcp_supervised_spec_mode(raw, C.uint32_t(s.Mode)))
	}
	if s.ClientName != "" || s.ClientVersion != "" {
		name_at, name_length := text(s.ClientName)
		at, length := text(s.ClientVersion)
		note("the client's name or version", C.mcp_supervised_spec_client_info(raw, name_at, name_length, at, length))
	}
	if s.ClientCapabilities != nil {
		json, err := json.Marshal(s.ClientCapabilities)
		if err != nil && failed == nil {
			failed = err
		}
		at, length := text(string(json))
		note("ClientCapabilities", C.mcp_supervised_spec_client_capabilities(raw, at, length))
	}
	if s.Restart != nil {
		delay, window := ms(s.Restart.Delay), ms(s.Restart.Window)
		note("Restart", C.mcp_supervised_spec_restart(raw, C.uint32_t(s.Restart.Max), delay, window))
	}
	if s.CloseGrace != 0 || s.KillGrace != 0 {
		note("the graces", C.mcp_supervised_spec_stop_grace(raw, ms(s.CloseGrace), ms(s.KillGrace)))
	}
	if s.Timeout != 0 || s.MaxTimeout != 0 {
		note("the timeouts", C.mcp_supervised_spec_request_timeouts(raw, ms(s.Timeout), ms(s.MaxTimeout)))
	}
	if s.ProbeTimeout != 0 || s.StartTimeout != 0 {
		note("the start timeouts", C.mcp_supervised_spec_start_timeouts(raw, ms(s.ProbeTimeout), ms(s.StartTimeout)))
	}
	note("RetryLostRequests", C.mcp_supervised_spec_retry_lost_requests(raw, number(s.RetryLostRequests)))
	note("Rediscover", C.mcp_supervised_spec_rediscover(raw, number(s.Rediscover)))
	note("Shed", C.mcp_supervised_spec_shed(raw, number(s.Shed)))
	if s.ServerLogLevel != "" {
		at, length := text(s.ServerLogLevel)
		note("ServerLogLevel", C.mcp_supervised_spec_server_log_level(raw, at, length))
	}
	if s.Stderr != 0 {
		note("Stderr", C.mcp_supervised_spec_stderr(raw, C.uint32_t(s.Stderr)))
	}
	for kind, value := range s.Limits {
		note("a limit", C.mcp_supervised_spec_limit(raw, C.uint32_t(kind), C.uint64_t(value)))
	}
	if failed != nil {
		C.mcp_supervised_spec_free(raw)
		return nil, failed
	}
	return raw, nil
}
