// A host in Go: asks a server for all it has, keeps a stream open, lets the server crash in the middle of a call, and goes on with
// the replacement. Calls come from many goroutines at once, and the host has children of its own.
//
//	host [COMMAND [ARGUMENT]...]
//
// Without arguments the server is the demo server, which then has to be in PATH. Exits with 0 if everything came as it should.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"mcp-supervised.example/supervised"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "failed:", err)
		os.Exit(1)
	}
	fmt.Println("everything was seen")
}

// must panics with what is wrong; run turns that into its error.
func must(is bool, what string, seen any) {
	if !is {
		panic(fmt.Errorf("%s: %v", what, seen))
	}
}

func run(command []string) (err error) {
	defer func() {
		if wrong, ok := recover().(error); ok {
			err = wrong
		}
	}()
	if len(command) == 0 {
		command = []string{"mcp-supervised-demo-server"}
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	host, err := supervised.New(nil)
	if err != nil {
		return err
	}
	defer host.Close()
	seen := make(chan *supervised.Event, 100)
	server, err := host.Add(supervised.Spec{
		Command:    command[0],
		Args:       command[1:],
		ClientName: "go-host", ClientVersion: "1.0",
		Restart:            &supervised.Restart{Max: 3, Delay: 50 * time.Millisecond, Window: time.Minute},
		ClientCapabilities: map[string]any{"elicitation": map[string]any{}, "sampling": map[string]any{}},
		OnEvent:            func(event *supervised.Event) { seen <- event },
		OnRequest:          onRequest,
	})
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	ready := <-seen
	for ready.Kind == supervised.Log {
		ready = <-seen
	}
	must(ready.Kind == supervised.Ready, "Ready", ready)
	askForEverything(ctx, server)
	beAsked(ctx, server, ready.Era)
	askAtOnce(ctx, server)
	crashAndRecover(ctx, server, seen)
	if err := server.Close(); err != nil {
		return err
	}
	<-server.Done()
	if err := server.Remove(); err != nil {
		return err
	}
	return host.Shutdown(10 * time.Second)
}

// answer is the body of a call that must succeed.
func answer(result *supervised.Result, err error) string {
	must(err == nil, "a call", err)
	return string(result.Body)
}

// said is the text a tool has answered.
func said(result *supervised.Result, err error) string {
	must(err == nil, "a tool", err)
	var body struct{ Content []struct{ Text string } }
	err = result.Decode(&body)
	must(err == nil && len(body.Content) == 1, "the answer of a tool", string(result.Body))
	return body.Content[0].Text
}

func onRequest(ctx context.Context, method string, params json.RawMessage) (any, error) {
	if method != "elicitation/create" {
		return nil, &supervised.RemoteError{Code: -1, Body: []byte(`{"message":"no model here"}`)}
	}
	return map[string]any{"action": "accept", "content": map[string]any{"name": "Grace"}}, nil
}

func askForEverything(ctx context.Context, server *supervised.Server) {
	has := func(body, part string) { must(strings.Contains(body, part), "has no "+part, body) }
	has(answer(server.Discover(ctx)), `"tools"`)
	capabilities, stale, err := server.Capabilities()
	must(err == nil && !stale && strings.Contains(string(capabilities), `"tools"`), "Capabilities", string(capabilities))
	has(answer(server.ListTools(ctx, nil)), `"name":"echo"`)
	has(answer(server.ListResources(ctx, nil)), "mem://counter")
	has(answer(server.ListResourceTemplates(ctx, nil)), `"resourceTemplates":[]`)
	has(answer(server.ReadResource(ctx, "mem://counter")), `"text":"0"`)
	has(answer(server.ListPrompts(ctx, nil)), `"greet"`)
	has(answer(server.GetPrompt(ctx, "greet", map[string]string{"name": `Ada "the first"`})), `Ada \"the first\"`)
	has(answer(server.Complete(ctx, supervised.Reference{Prompt: "greet"}, "name", "A", nil)), `["Ada","Alan"]`)
	must(said(server.CallTool(ctx, "echo", map[string]any{"message": "tab\there, <世界>"})) == "tab\there, <世界>", "echo", "")

	steps := 0
	answer(server.CallTool(ctx, "progress", map[string]any{"every_ms": 1, "count": 3},
		supervised.Options{OnProgress: func(json.RawMessage) { steps++ }}))
	must(steps == 3, "notes of progress", steps)

	_, err = server.CallTool(ctx, "no such tool", nil)
	var remote *supervised.RemoteError
	must(errors.As(err, &remote) && remote.Code == -32602, "an error of the server", err)
	_, err = server.CallTool(ctx, "sleep", map[string]any{"ms": 60000}, supervised.Options{Timeout: 50 * time.Millisecond})
	var refused *supervised.Error
	must(errors.As(err, &refused) && refused.Status == supervised.ETimeout, "too late", err)
}

// A server may need to know more. Today it says so as a result: the answers go with the same question, and with the state that came.
// Servers of older revisions ask back, which OnRequest answers.
func beAsked(ctx context.Context, server *supervised.Server, era supervised.Era) {
	if era == supervised.LegacyEra {
		elicit := map[string]any{"method": "elicitation/create", "params": map[string]any{"message": "name?"}}
		answer := said(server.CallTool(ctx, "ask_client", elicit))
		must(strings.Contains(answer, "Grace"), "the answer", answer)
		refusal := said(server.CallTool(ctx, "ask_client", map[string]any{"method": "sampling/createMessage"}))
		must(strings.Contains(refusal, "no model"), "the refusal", refusal)
		return
	}
	first, err := server.CallTool(ctx, "ask", nil)
	must(err == nil && first.Flags.Has(supervised.InputRequired), "more input is wanted", err)
	var body struct{ RequestState string }
	must(first.Decode(&body) == nil && body.RequestState != "", "a state", string(first.Body))
	again := supervised.Options{
		InputResponses: map[string]any{"name": map[string]any{"action": "accept", "content": map[string]any{"name": "Grace"}}},
		RequestState:   []byte(strconv.Quote(body.RequestState)),
	}
	must(said(server.CallTool(ctx, "ask", nil, again)) == "hello Grace", "the answer", "")
}

// Many goroutines, and children of the host's own beside the library's.
func askAtOnce(ctx context.Context, server *supervised.Server) {
	var all sync.WaitGroup
	wrong := make(chan error, 100)
	for n := 0; n < 100; n++ {
		n := n
		all.Add(1)
		go func() {
			defer all.Done()
			message := strconv.Itoa(n)
			result, err := server.CallTool(ctx, "echo", map[string]any{"message": message})
			if err != nil || !strings.Contains(string(result.Body), `"text":"`+message+`"`) {
				wrong <- fmt.Errorf("call %d: %v", n, err)
			}
			if n%10 == 0 {
				if err := exec.Command("true").Run(); err != nil {
					wrong <- fmt.Errorf("a child of our own: %w", err)
				}
			}
		}()
	}
	all.Wait()
	close(wrong)
	must(len(wrong) == 0, "100 at once", <-wrong)
}

func crashAndRecover(ctx context.Context, server *supervised.Server, seen <-chan *supervised.Event) {
	stream, err := server.Listen(supervised.Filter{Tools: true})
	must(err == nil, "Listen", err)
	next := func(method string) {
		event, err := stream.Next(ctx)
		must(err == nil && event.Method == method, method, err)
	}
	next("notifications/subscriptions/acknowledged")
	first := said(server.CallTool(ctx, "pid", nil))

	_, err = server.CallTool(ctx, "crash", map[string]any{"code": 7})
	var lost *supervised.Error
	must(errors.As(err, &lost) && lost.Status == supervised.EClosed && !lost.Flags.Has(supervised.Unread), "the call is lost", err)
	for event := range seen {
		if event.Kind == supervised.Close {
			must(event.ExitCode == 7 && event.Flags.Has(supervised.WillReconnect), "why it ended", event)
		}
		if event.Kind == supervised.Reconnect {
			fmt.Printf("replaced: pid %d after %s\n", event.Pid, first)
			break
		}
	}
	must(said(server.CallTool(ctx, "pid", nil)) != first, "another process", first)
	next("notifications/subscriptions/acknowledged")
	answer(server.CallTool(ctx, "flip", nil))
	next("notifications/tools/list_changed")
	must(stream.Cancel() == nil, "Cancel", "")
	_, err = stream.Next(ctx)
	must(err == io.EOF, "the end of the stream", err)

	// Something slow, called off.
	short, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	_, err = server.CallTool(short, "sleep", map[string]any{"ms": 60000})
	must(errors.Is(err, context.DeadlineExceeded), "called off", err)
}
