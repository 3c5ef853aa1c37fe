package supervised

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The tests need the demo server: MCP_SUPERVISED_DEMO_SERVER names it.
func demo(t *testing.T, args ...string) Spec {
	t.Helper()
	path := os.Getenv("MCP_SUPERVISED_DEMO_SERVER")
	if path == "" {
		t.Fatal("MCP_SUPERVISED_DEMO_SERVER is not set")
	}
	return Spec{Command: path, Args: args, Restart: &Restart{Max: Unlimited, Delay: time.Millisecond, Window: time.Minute}}
}

func newHost(t *testing.T) (context.Context, *Host) {
	t.Helper()
	host, err := New(&Config{OnError: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(func() {
		stop()
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	return ctx, host
}

func start(t *testing.T, host *Host, spec Spec) *Server {
	t.Helper()
	server, err := host.Add(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	return server
}

type args map[string]any

// waitFor looks until it is so, with the locks held that are given.
func waitFor(t *testing.T, what string, isSo func() bool, locks ...sync.Locker) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		done := func() bool {
			for _, lock := range locks {
				lock.Lock()
				defer lock.Unlock()
			}
			return isSo()
		}()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

func threads(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(tasks)
}

// However many servers and calls there are, nobody blocks a thread: neither the waiting callers nor the goroutine that waits for
// the library.
func TestNoThreadBlocksInC(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	ctx, host := newHost(t)
	var servers []*Server
	for n := 0; n < 20; n++ {
		servers = append(servers, start(t, host, demo(t)))
	}
	// The runtime starts a thread when one is in C for a while, as for a spawn, and keeps it; waiting calls must not add to that.
	most := threads(t) + 10
	var calls sync.WaitGroup
	for n := 0; n < 1000; n++ {
		server := servers[n%len(servers)]
		calls.Add(1)
		go func() {
			defer calls.Done()
			if _, err := server.CallTool(ctx, "silent", nil); !errors.Is(err, ErrFreed) {
				t.Errorf("a call ended with %v", err)
			}
		}()
	}
	waitFor(t, "1000 calls", func() bool { return host.waiting == 1000 }, &host.mutex)
	// The pump parks in the netpoller, and no goroutine is inside C.
	waitFor(t, "the pump to park", func() bool {
		stacks := make([]byte, 8<<20)
		parked, inside := 0, 0
		for _, stack := range strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if strings.Contains(stack, "(*Host).pump") && strings.Contains(stack, "[IO wait") {
				parked++
			}
			if strings.Contains(stack, "_Cfunc_") {
				inside++
			}
		}
		return parked == 1 && inside == 0
	})
	if n := threads(t); n > most {
		t.Errorf("%d threads with 1000 calls under way", n)
	}
	// With a blocked pump this would not come back, and with one processor it has to share.
	runtime.GOMAXPROCS(1)
	if _, err := servers[0].CallTool(ctx, "echo", args{"message": "still here"}); err != nil {
		t.Error(err)
	}
	if n := threads(t); n > most {
		t.Errorf("%d threads with one processor", n)
	}
	if err := host.Close(); err != nil {
		t.Error(err)
	}
	calls.Wait()
}

// The host reaps its own 200 children and gets each one's own status, while the library reaps servers that crash all the time.
// The runtime's preemption signals (SIGURG) go on meanwhile.
func TestChildrenOfOurOwn(t *testing.T) {
	ctx, host := newHost(t)
	var over atomic.Bool
	var crashes atomic.Int64
	var crashing sync.WaitGroup
	for n := 0; n < 4; n++ {
		reconnected := make(chan struct{}, 1000)
		spec := demo(t)
		spec.OnEvent = func(e *Event) {
			if e.Kind == Close && e.Flags.Has(WillReconnect) && (e.ExitCode != 13 || e.Flags.Has(ExitUnknown)) {
				t.Errorf("exit code %d, flags %x", e.ExitCode, e.Flags)
			}
			if e.Kind == Reconnect {
				reconnected <- struct{}{}
			}
		}
		server := start(t, host, spec)
		crashing.Add(1)
		go func() {
			defer crashing.Done()
			for !over.Load() {
				var lost *Error
				if _, err := server.CallTool(ctx, "crash", nil); !errors.As(err, &lost) || lost.Status != EClosed {
					t.Errorf("a crash ended with %v", err)
					return
				}
				crashes.Add(1)
				<-reconnected
			}
		}()
	}
	var own sync.WaitGroup
	for n := 0; n < 200; n++ {
		n := n
		own.Add(1)
		go func() {
			defer own.Done()
			err := exec.Command("/bin/sh", "-c", fmt.Sprintf("exit %d", n)).Run()
			var exit *exec.ExitError
			if n == 0 && err != nil || n > 0 && (!errors.As(err, &exit) || exit.ExitCode() != n) {
				t.Errorf("child %d: %v", n, err)
			}
		}()
	}
	own.Wait()
	over.Store(true)
	crashing.Wait()
	if crashes.Load() < 4 {
		t.Errorf("only %d crashes", crashes.Load())
	}
}

// Every method from every goroutine, through crashes: each call ends, with its own answer or with the reason.
func TestSafeFromAnyGoroutine(t *testing.T) {
	ctx, host := newHost(t)
	server := start(t, host, demo(t))
	var all sync.WaitGroup
	for n := 0; n < 8; n++ {
		n := n
		all.Add(1)
		go func() {
			defer all.Done()
			answered := 0
			for i := 0; answered < 50; i++ {
				message := fmt.Sprintf("%d-%d", n, i)
				result, err := server.CallTool(ctx, "echo", args{"message": message})
				var failed *Error
				switch {
				case err == nil:
					answered++
					if !strings.Contains(string(result.Body), `"text":"`+message+`"`) {
						t.Errorf("%s: %s", message, result.Body)
					}
				case !errors.As(err, &failed) || failed.Status != EClosed:
					t.Errorf("%s: %v", message, err)
					return
				}
				if n == 0 && i%10 == 9 {
					server.CallTool(ctx, "crash", nil)
				}
				server.Pid()
				server.State()
				server.Capabilities()
				server.Notify("notifications/roots/list_changed", nil)
				if stream, err := server.Listen(Filter{Tools: true}); err == nil {
					stream.Cancel()
				}
			}
		}()
	}
	all.Wait()
}

// A handler that calls the server, behind a queue that is more than full.
func TestHandlerCallsTheServer(t *testing.T) {
	ctx, host := newHost(t)
	var server *Server
	ready, answers := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	seen := 0
	spec := demo(t)
	spec.OnEvent = func(e *Event) {
		if e.Kind == Message && e.MessageKind == NotificationMessage {
			seen++
		}
		once.Do(func() {
			<-ready
			// Everything that the flood makes is queued behind this.
			_, err := server.CallTool(ctx, "flood", args{"count": 5 * enough})
			answers <- err
		})
	}
	server = start(t, host, spec)
	if _, err := server.CallTool(ctx, "flood", args{"count": 10}); err != nil {
		t.Fatal(err)
	}
	close(ready)
	if err := <-answers; err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	<-server.Done()
	waitFor(t, "the handler", func() bool { return len(server.queue) == 0 && !server.handling }, &host.mutex)
	if seen != 5*enough+10 {
		t.Errorf("%d notifications of %d", seen, 5*enough+10)
	}
}

// While a handler is slow and nobody waits, the server waits: the queue stays bounded.
func TestSlowHandlerHoldsTheServerBack(t *testing.T) {
	_, host := newHost(t)
	release := make(chan struct{})
	notes := 0
	all := make(chan struct{})
	const wanted = 20 * enough
	spec := demo(t)
	spec.OnEvent = func(e *Event) {
		<-release
		if e.Kind == Message && e.MessageKind == NotificationMessage {
			if notes++; notes == wanted {
				close(all)
			}
		}
	}
	server := start(t, host, spec)
	// Untracked, so that nobody waits for its answer.
	line := `{"jsonrpc":"2.0","id":"flood","method":"tools/call","params":{"name":"flood","arguments":{"count":%d},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	if _, err := server.CallTool(context.Background(), "echo", args{"message": "serves"}); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Send([]byte(fmt.Sprintf(line, wanted))); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the full queue", func() bool {
		if host.queued > enough+batch {
			t.Fatalf("%d events are queued", host.queued)
		}
		return host.queued >= enough
	}, &host.mutex)
	close(release)
	select {
	case <-all:
	case <-time.After(time.Minute):
		t.Fatalf("%d of %d", notes, wanted)
	}
}

// flooded is a server whose stream nobody reads, with so much unread that the host takes no more.
func flooded(t *testing.T, ctx context.Context, host *Host, spec Spec) (*Server, *Stream) {
	t.Helper()
	server := start(t, host, spec)
	stream, err := server.Listen(Filter{URIs: []string{"mem://counter"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Next(ctx); err != nil {
		t.Fatal(err)
	}
	// Untracked, so that nobody waits for its answer.
	line := `{"jsonrpc":"2.0","id":"flood","method":"tools/call","params":{"name":"flood","arguments":{"kind":"updated","count":%d},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	if _, err := server.Send([]byte(fmt.Sprintf(line, 20*enough))); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the full stream", func() bool { return host.queued >= enough }, &host.mutex)
	return server, stream
}

func within(t *testing.T, ctx context.Context, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatalf("waited a minute for %s", what)
	}
}

// Close and Shutdown go on inside poll: who waits for them must not wait for a reader who never comes.
func TestAnEndComesBehindAStreamThatNobodyReads(t *testing.T) {
	ctx, host := newHost(t)
	server, _ := flooded(t, ctx, host, demo(t))
	for i := 0; i < 2; i++ {
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
	}
	within(t, ctx, "the end of a server", server.Done())
	flooded(t, ctx, host, demo(t))
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := host.Shutdown(5 * time.Second); err != nil {
			t.Error(err)
		}
	}()
	within(t, ctx, "the end of all servers", over)
	if host.waiting != 0 {
		t.Errorf("%d still wait", host.waiting)
	}
}

// What a stream that is over has left unread is nobody's to read any more, cancelled or ended.
func TestAStreamThatIsOverHoldsNobodyBack(t *testing.T) {
	ctx, host := newHost(t)
	back := make(chan struct{}, 1)
	spec := demo(t)
	spec.OnEvent = func(e *Event) {
		if e.Kind == Reconnect {
			back <- struct{}{}
		}
	}
	server, stream := flooded(t, ctx, host, spec)
	for i := 0; i < 2; i++ {
		if err := stream.Cancel(); err != nil {
			t.Fatal(err)
		}
	}
	pid, err := server.Pid()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	within(t, ctx, "the replacement", back)
	// It can still be read, and that is counted once.
	if _, err := stream.Next(ctx); err != nil {
		t.Error(err)
	}
	waitFor(t, "the handler", func() bool { return host.queued == 0 }, &host.mutex)
	other, _ := flooded(t, ctx, host, demo(t))
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	within(t, ctx, "the end", other.Done())
	waitFor(t, "nothing to be counted", func() bool { return host.queued == 0 }, &host.mutex)
}

func TestAServerThatWasNeverStartedIsOverWhenItIsRemoved(t *testing.T) {
	ctx, host := newHost(t)
	server, err := host.Add(Spec{Command: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Remove(); err != nil {
		t.Fatal(err)
	}
	within(t, ctx, "the end", server.Done())
}

func TestWhatIsRefusedSaysWhy(t *testing.T) {
	ctx, host := newHost(t)
	wrong := func(err error, status Status, part string) {
		t.Helper()
		var refused *Error
		if !errors.As(err, &refused) || refused.Status != status || !strings.Contains(err.Error(), part) {
			t.Errorf("%v is not %v with %q", err, status, part)
		}
	}
	_, err := host.Add(Spec{})
	wrong(err, EInvalid, "command")
	_, err = host.Add(Spec{Command: "x", Restart: &Restart{Max: 1, Delay: -1}})
	wrong(err, EInvalid, "below 0")
	_, err = host.Add(Spec{Command: "x", Restart: &Restart{Max: 0, Window: time.Minute}})
	wrong(err, EInvalid, "NO_RESTART")
	server, err := host.Add(Spec{Command: "/nowhere/to/be/found"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = server.ListTools(ctx, nil)
	wrong(err, ENotStarted, "")
	wrong(server.Start(), ESpawn, "/nowhere/to/be/found")
	server = start(t, host, demo(t))
	_, err = server.CallTool(ctx, "echo", json.RawMessage(`{"message":`))
	wrong(err, EInvalid, "")
	_, err = server.CallTool(ctx, "echo", func() {})
	if err == nil {
		t.Error("a function is no JSON")
	}
	result, err := server.CallTool(ctx, "echo", json.RawMessage(`{"message":"<&>"}`))
	if err != nil || !strings.Contains(string(result.Body), "<&>") {
		t.Errorf("%v", err)
	}
}

func TestBudgetIsSpent(t *testing.T) {
	ctx, host := newHost(t)
	spec := demo(t)
	spec.Restart = &Restart{Max: NoRestart, Delay: 0, Window: time.Minute}
	var kinds []string
	spec.OnEvent = func(e *Event) {
		if e.Kind == Close || e.Kind == Exhausted {
			kinds = append(kinds, fmt.Sprint(e.Kind))
		}
	}
	server := start(t, host, spec)
	stream, err := server.Listen(Filter{Tools: true})
	if err != nil {
		t.Fatal(err)
	}
	var failed *Error
	if _, err := server.CallTool(ctx, "crash", nil); !errors.As(err, &failed) || failed.Status != EClosed {
		t.Error(err)
	}
	for err == nil {
		_, err = stream.Next(ctx)
	}
	if !errors.As(err, &failed) || failed.Status != EExhausted {
		t.Error(err)
	}
	<-server.Done()
	if _, err := server.ListTools(ctx, nil); !errors.As(err, &failed) || failed.Status != EClosed {
		t.Error(err)
	}
	if err := server.Remove(); err != nil {
		t.Error(err)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	ctx, host := newHost(t)
	server := start(t, host, demo(t))
	stream, err := server.Listen(Filter{Tools: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Next(ctx); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() { _, err := server.CallTool(ctx, "silent", nil); ended <- err }()
	go func() { _, err := stream.Next(ctx); ended <- err }()
	waitFor(t, "the call", func() bool { return host.waiting == 1 }, &host.mutex)
	for i := 0; i < 2; i++ {
		if err := host.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < 2; i++ {
		if err := <-ended; !errors.Is(err, ErrFreed) {
			t.Error(err)
		}
	}
	<-server.Done()
	if _, err := server.ListTools(ctx, nil); !errors.Is(err, ErrFreed) {
		t.Error(err)
	}
}

// Every typed call once. What runs this looks at the server's record of its input.
func TestTypedCalls(t *testing.T) {
	ctx, host := newHost(t)
	record := os.Getenv("MCP_SUPERVISED_RECORD")
	if record == "" {
		record = t.TempDir() + "/record"
	}
	spec := demo(t, "--record", record)
	spec.Mode = Modern
	server := start(t, host, spec)
	more := Options{
		Meta:           args{"k": 1},
		InputResponses: args{"name": args{"action": "decline"}},
		RequestState:   json.RawMessage(`"state-1"`),
	}
	empty, c := "", "c"
	for n, call := range []func() (*Result, error){
		func() (*Result, error) { return server.Discover(ctx) },
		func() (*Result, error) { return server.ListTools(ctx, nil) },
		func() (*Result, error) { return server.ListTools(ctx, &empty) },
		func() (*Result, error) { return server.ListResources(ctx, &c) },
		func() (*Result, error) { return server.ListResourceTemplates(ctx, &c) },
		func() (*Result, error) { return server.ListPrompts(ctx, &c) },
		func() (*Result, error) { return server.CallTool(ctx, "ask", nil, more) },
		func() (*Result, error) { return server.ReadResource(ctx, "mem://counter", more) },
		func() (*Result, error) { return server.GetPrompt(ctx, "greet", map[string]string{"name": "x"}) },
		func() (*Result, error) {
			return server.Complete(ctx, Reference{Prompt: "greet"}, "name", "A", map[string]string{"other": "x"})
		},
		func() (*Result, error) {
			return server.Complete(ctx, Reference{URITemplate: "mem://{a}"}, "a", "", nil)
		},
	} {
		if _, err := call(); err != nil {
			t.Errorf("call %d: %v", n, err)
		}
	}
	if err := server.Notify("notifications/cancelled", args{"requestId": 999}); err != nil {
		t.Error(err)
	}
	if _, err := server.CallTool(ctx, "echo", args{"message": "over"}); err != nil {
		t.Error(err)
	}
	lines, err := os.ReadFile(record)
	if err != nil || strings.Count(string(lines), "\n") != 13 {
		t.Errorf("%v, %d lines", err, strings.Count(string(lines), "\n"))
	}
}

// Servers of revisions before 2026-07-28: the handshake, emulation, and questions to the client.
func older(t *testing.T, host *Host, onRequest func(context.Context, string, json.RawMessage) (any, error)) *Server {
	t.Helper()
	spec := demo(t, "--legacy", "2025-11-25")
	spec.ClientCapabilities = args{"elicitation": args{}}
	spec.OnRequest = onRequest
	return start(t, host, spec)
}

func TestOlderServers(t *testing.T) {
	ctx, host := newHost(t)
	server := older(t, host, nil)
	result, err := server.Discover(ctx)
	if err != nil || !result.Flags.Has(Emulated) {
		t.Error(err, result)
	}
	stream, err := server.Listen(Filter{URIs: []string{"mem://counter"}})
	if err != nil {
		t.Fatal(err)
	}
	for life := 1; life <= 2; life++ {
		acknowledged, err := stream.Next(ctx)
		if err != nil || !acknowledged.Flags.Has(Emulated) {
			t.Fatal(life, err)
		}
		if _, err := server.CallTool(ctx, "bump", nil); err != nil {
			t.Fatal(life, err)
		}
		if updated, err := stream.Next(ctx); err != nil || updated.Method != "notifications/resources/updated" {
			t.Fatal(life, err)
		}
		if life == 1 {
			server.CallTool(ctx, "crash", nil)
		}
	}
}

func TestQuestions(t *testing.T) {
	ctx, host := newHost(t)
	elicit := args{"method": "elicitation/create", "params": args{"message": "name?"}}
	for name, c := range map[string]struct {
		onRequest func(context.Context, string, json.RawMessage) (any, error)
		want      string
	}{
		"an answer": {
			func(_ context.Context, method string, params json.RawMessage) (any, error) {
				return args{"action": "accept", "content": args{"asked": params}}, nil
			},
			`{"result":{"action":"accept","content":{"asked":{"message":"name?"}}}}`,
		},
		"a refusal": {
			func(context.Context, string, json.RawMessage) (any, error) {
				return nil, &RemoteError{Code: -7, Body: []byte(`{"message":"no \"names\"","data":[1]}`)}
			},
			`{"error":{"code":-7,"data":[1],"message":"no \"names\""}}`,
		},
		"a failure": {
			func(context.Context, string, json.RawMessage) (any, error) { return nil, errors.New("broken") },
			`{"error":{"code":-32603,"message":"broken"}}`,
		},
		"nobody": {nil, `{"error":{"code":-32601,"message":"this client does not answer elicitation/create"}}`},
		"nonsense": {
			func(context.Context, string, json.RawMessage) (any, error) { return json.RawMessage("[1]"), nil },
			`"code":-32603`,
		},
	} {
		server := older(t, host, c.onRequest)
		result, err := server.CallTool(ctx, "ask_client", elicit)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var body struct{ Content []struct{ Text string } }
		if err := result.Decode(&body); err != nil || !strings.Contains(body.Content[0].Text, c.want) {
			t.Errorf("%s: %s", name, result.Body)
		}
	}
}

// The server dies while its question is being thought about: the context ends, and the answer goes nowhere.
func TestAnswerForADeadServer(t *testing.T) {
	ctx, host := newHost(t)
	asked, ended := make(chan struct{}), make(chan error, 1)
	server := older(t, host, func(life context.Context, _ string, _ json.RawMessage) (any, error) {
		close(asked)
		select {
		case <-life.Done():
		case <-ctx.Done():
		}
		ended <- life.Err()
		return args{"action": "decline"}, nil
	})
	lost := make(chan error, 1)
	go func() {
		_, err := server.CallTool(ctx, "ask_client", args{"method": "elicitation/create", "params": args{"message": "name?"}})
		lost <- err
	}()
	<-asked
	server.CallTool(ctx, "crash", nil)
	if err := <-ended; err != context.Canceled {
		t.Error(err)
	}
	var failed *Error
	if err := <-lost; !errors.As(err, &failed) || failed.Status != EClosed {
		t.Error(err)
	}
	waitFor(t, "the replacement", func() bool { state, _ := server.State(); return state == Running })
	if _, err := server.CallTool(ctx, "echo", args{"message": "goes on"}); err != nil {
		t.Error(err)
	}
}
