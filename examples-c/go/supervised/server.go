package supervised

// #include <mcp_supervised.h>
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"
)

// Server is one supervised server, through all its lives. Made by Host.Add.
type Server struct {
	host *Host
	peer C.mcp_supervised_peer
	spec *Spec

	// All below is under the host's lock.
	calls    map[uint64]*call
	streams  map[uint64]*Stream
	queue    []*Event // for OnEvent
	handling bool     // a goroutine is at the queue
	room     chan struct{}
	life     context.Context // of the connection
	endLife  context.CancelFunc
	closing  bool // counted in the host's waiting
	final    bool
	done     chan struct{} // closed with the last event
}

func newServer(host *Host, spec *Spec) *Server {
	s := &Server{
		host:    host,
		spec:    spec,
		calls:   make(map[uint64]*call),
		streams: make(map[uint64]*Stream),
		room:    make(chan struct{}),
		done:    make(chan struct{}),
	}
	s.life, s.endLife = context.WithCancel(context.Background())
	return s
}

// locked makes one call of the library under the host's lock.
func (s *Server) locked(call func() C.int32_t) error {
	s.host.mutex.Lock()
	defer s.host.mutex.Unlock()
	return s.host.judge(call)
}

// Start spawns the first process.
func (s *Server) Start() error {
	return s.locked(func() C.int32_t { return C.mcp_supervised_start(s.host.handle, s.peer) })
}

// Close ends the server for good; Done tells when it has ended.
func (s *Server) Close() error {
	s.host.mutex.Lock()
	defer s.host.mutex.Unlock()
	err := s.host.judge(func() C.int32_t { return C.mcp_supervised_close(s.host.handle, s.peer) })
	if err == nil && !s.closing && !s.final {
		// It goes on inside poll: no reader may hold it up.
		s.closing = true
		s.host.waits(1)
	}
	return err
}

// Done is closed when the last event of the server has come: after Close, when its budget is spent, or with the host.
func (s *Server) Done() <-chan struct{} { return s.done }

// Remove forgets a server that has ended.
func (s *Server) Remove() error {
	s.host.mutex.Lock()
	defer s.host.mutex.Unlock()
	err := s.host.judge(func() C.int32_t { return C.mcp_supervised_remove(s.host.handle, s.peer) })
	if err == nil {
		delete(s.host.servers, s.peer)
		s.ends() // if it was never started
	}
	return err
}

// State is what it is right now; events that tell how it came about may still be on their way.
func (s *Server) State() (State, error) {
	var state C.int32_t
	err := s.locked(func() C.int32_t { state = C.mcp_supervised_state(s.host.handle, s.peer); return state })
	return State(state), err
}

// Pid is that of the process, 0 while there is none. Do not signal it, do not wait for it.
func (s *Server) Pid() (int, error) {
	var pid C.int32_t
	err := s.locked(func() C.int32_t { pid = C.mcp_supervised_pid(s.host.handle, s.peer); return pid })
	return int(pid), err
}

// Info is the JSON text of the server's name and version. stale: a restart came after the server said it.
func (s *Server) Info() (text json.RawMessage, stale bool, err error) {
	return s.told(func(at **C.char, length *C.size_t) C.int32_t {
		return C.mcp_supervised_server_info(s.host.handle, s.peer, at, length)
	})
}

// Capabilities is the JSON text of what the server can do.
func (s *Server) Capabilities() (text json.RawMessage, stale bool, err error) {
	return s.told(func(at **C.char, length *C.size_t) C.int32_t {
		return C.mcp_supervised_server_capabilities(s.host.handle, s.peer, at, length)
	})
}

func (s *Server) told(ask func(**C.char, *C.size_t) C.int32_t) (json.RawMessage, bool, error) {
	var at *C.char
	var length C.size_t
	var answer json.RawMessage
	var status C.int32_t
	err := s.locked(func() C.int32_t {
		if status = ask(&at, &length); status >= 0 {
			answer = bytes(at, length)
		}
		return status
	})
	return answer, status == C.MCP_SUPERVISED_STALE, err
}

// Notify sends a notification.
func (s *Server) Notify(method string, params any) error {
	json, err := encode(params)
	if err != nil {
		return err
	}
	method_at, method_length := text(method)
	at, length := text(string(json))
	return s.locked(func() C.int32_t {
		return C.mcp_supervised_notify(s.host.handle, s.peer, method_at, method_length, at, length)
	})
}

// Send writes one raw JSON-RPC line, untracked, and gives its number.
func (s *Server) Send(line []byte) (uint64, error) {
	var number C.uint64_t
	at, length := text(string(line))
	err := s.locked(func() C.int32_t { return C.mcp_supervised_send(s.host.handle, s.peer, at, length, &number) })
	return uint64(number), err
}

// Options of one request.
type Options struct {
	// Timeout without a sign of the request, and MaxTimeout in all. 0 is the server's, Never none.
	Timeout, MaxTimeout time.Duration
	// OnProgress gets the params of each progress notification, on the goroutine that waits.
	OnProgress func(params json.RawMessage)
	// MetaVerbatim: `_meta` is the host's own.
	MetaVerbatim bool
	// Meta becomes `params._meta`. Of the typed calls.
	Meta any
	// InputResponses and RequestState, as it came, follow a result with InputRequired. Of CallTool, GetPrompt and ReadResource.
	InputResponses any
	RequestState   json.RawMessage
}

// Result is what the server answered. Flags: Retried, InputRequired, OtherResultType, Emulated.
type Result struct {
	Body  json.RawMessage
	Flags Flags
}

// Decode parses the body.
func (r *Result) Decode(into any) error { return json.Unmarshal(r.Body, into) }

// call is a request that waits for its end.
type call struct {
	news   chan struct{} // has room for one
	events []*Event      // progress
	end    *Event
	err    error
}

func (c *call) tell() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// Request sends a request of any method and waits for its end. A context that ends cancels the request.
func (s *Server) Request(ctx context.Context, method string, params any, options ...Options) (*Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	json, err := encode(params)
	if err != nil {
		return nil, err
	}
	raw, onProgress, err := optionsOf(options)
	if err != nil {
		return nil, err
	}
	id, waiting, err := s.submit(method, json, raw)
	if err != nil {
		return nil, err
	}
	for {
		s.host.mutex.Lock()
		events, end, err := waiting.events, waiting.end, waiting.err
		waiting.events = nil
		s.host.mutex.Unlock()
		if onProgress != nil {
			for _, event := range events {
				onProgress(event.Body)
			}
		}
		switch {
		case end != nil:
			return resultOf(end)
		case err != nil:
			return nil, err
		}
		select {
		case <-waiting.news:
		case <-ctx.Done():
			// It completes all the same, with E_CANCELLED or with what came first; nobody listens any more.
			_ = s.cancel(id, ctx.Err().Error())
			return nil, ctx.Err()
		}
	}
}

func optionsOf(all []Options) (raw C.mcp_supervised_request_options, onProgress func(json.RawMessage), err error) {
	raw.size = C.sizeof_mcp_supervised_request_options
	for _, options := range all {
		if raw.timeout_ms, err = millis(options.Timeout); err != nil {
			return
		}
		if raw.max_timeout_ms, err = millis(options.MaxTimeout); err != nil {
			return
		}
		if onProgress = options.OnProgress; onProgress != nil {
			raw.flags |= C.MCP_SUPERVISED_REQUEST_PROGRESS
		}
		if options.MetaVerbatim {
			raw.flags |= C.MCP_SUPERVISED_REQUEST_META_VERBATIM
		}
	}
	return
}

func (s *Server) submit(method string, params []byte, options C.mcp_supervised_request_options) (uint64, *call, error) {
	var id C.mcp_supervised_request_id
	method_at, method_length := text(method)
	at, length := text(string(params))
	s.host.mutex.Lock()
	defer s.host.mutex.Unlock()
	err := s.host.judge(func() C.int32_t {
		return C.mcp_supervised_request(s.host.handle, s.peer, method_at, method_length, at, length, &options, &id)
	})
	if err != nil {
		return 0, nil, err
	}
	// The lock is held since before the request was sent: its end cannot have come yet.
	waiting := &call{news: make(chan struct{}, 1)}
	s.calls[uint64(id)] = waiting
	s.host.waits(1)
	return uint64(id), waiting, nil
}

func (s *Server) cancel(id uint64, reason string) error {
	at, length := text(reason)
	return s.locked(func() C.int32_t {
		return C.mcp_supervised_cancel(s.host.handle, s.peer, C.mcp_supervised_request_id(id), at, length)
	})
}

// ended is what an event that completes says.
func ended(end *Event) error {
	switch {
	case end.Kind != Message:
		return &Error{Status: Status(end.Status), Text: string(end.Payload), Flags: end.Flags}
	case end.MessageKind == ErrorMessage:
		return &RemoteError{Code: end.ErrorCode, Body: end.Body}
	default:
		return nil
	}
}

func resultOf(end *Event) (*Result, error) {
	if err := ended(end); err != nil {
		return nil, err
	}
	return &Result{Body: end.Body, Flags: end.Flags}, nil
}

// Stream is notifications that were asked for. It survives restarts of the server; each opening is acknowledged by a
// notification.
//
// Read it or Cancel it: what lies unread is kept, and with 1024 events in all streams and before all handlers the host takes nothing
// more from any server until they are read, or while somebody waits for an answer or an end.
type Stream struct {
	server *Server
	id     uint64
	// Under the host's lock.
	waiting   call
	cancelled bool
	uncounted bool // not in the host's queued any more
}

// Next waits for the next notification. When the stream is over it gives io.EOF after a result of the server or Cancel, and
// otherwise what ended it. One goroutine at a time.
func (st *Stream) Next(ctx context.Context) (*Event, error) {
	host := st.server.host
	for {
		host.mutex.Lock()
		if len(st.waiting.events) > 0 {
			event := st.waiting.events[0]
			st.waiting.events = st.waiting.events[1:]
			if !st.uncounted {
				host.taken(1)
			}
			host.mutex.Unlock()
			return event, nil
		}
		end, err, cancelled := st.waiting.end, st.waiting.err, st.cancelled
		host.mutex.Unlock()
		if err != nil {
			return nil, err
		}
		if end != nil {
			if err := ended(end); err != nil && !cancelled {
				return nil, err
			}
			return nil, io.EOF
		}
		select {
		case <-st.waiting.news:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Cancel ends the stream. What was queued can still be read.
func (st *Stream) Cancel() error {
	st.server.host.mutex.Lock()
	st.cancelled = true
	st.uncount()
	over := st.waiting.end != nil || st.waiting.err != nil
	st.server.host.mutex.Unlock()
	if over {
		return nil
	}
	err := st.server.cancel(st.id, "")
	var refused *Error
	if errors.As(err, &refused) && refused.Status == ENoRequest {
		return nil // its end is on the way already
	}
	return err
}

// uncount is called with the lock when nothing more comes of a stream. Whether what it left is read or not holds nobody back.
func (st *Stream) uncount() {
	if !st.uncounted {
		st.uncounted = true
		st.server.host.taken(len(st.waiting.events))
	}
}

// taken is called with the lock when events have found their reader.
func (h *Host) taken(count int) {
	h.queued -= count
	h.cond.Broadcast()
}

// waits is called with the lock when somebody waits for an answer or an end, and when they do no more.
func (h *Host) waits(count int) {
	h.waiting += count
	h.cond.Broadcast()
}

// take is called by the pump, with the lock. It never waits.
func (s *Server) take(event *Event) {
	over := event.Flags.Has(Complete)
	call, stream := s.calls[event.request], s.streams[event.request]
	switch {
	case event.request != 0 && call != nil:
		if over {
			delete(s.calls, event.request)
			s.host.waits(-1)
			call.end = event
		} else {
			call.events = append(call.events, event)
		}
		call.tell()
	case event.request != 0 && stream != nil:
		if over {
			delete(s.streams, event.request)
			stream.waiting.end = event
			stream.uncount()
		} else {
			if !stream.uncounted {
				s.host.queued++
			}
			stream.waiting.events = append(stream.waiting.events, event)
		}
		stream.waiting.tell()
	case event.Kind == Message && event.MessageKind == RequestMessage && event.request != 0:
		go s.answer(s.life, event)
	case s.spec.OnEvent != nil:
		s.host.queued++
		s.queue = append(s.queue, event)
		if !s.handling {
			s.handling = true
			go s.handle()
		}
	}
	if event.Kind == Close {
		s.endLife()
		s.life, s.endLife = context.WithCancel(context.Background())
	}
	if event.Kind == Writable || event.Kind == Reconnect || event.Flags.Has(Final) {
		close(s.room)
		s.room = make(chan struct{})
	}
	if event.Flags.Has(Final) {
		if s.closing {
			s.closing = false
			s.host.waits(-1)
		}
		s.ends()
	}
}

// ends tells, once, that the last event has come. Called with the lock.
func (s *Server) ends() {
	s.endLife()
	if !s.final {
		s.final = true
		close(s.done)
	}
}

// handle hands the queue out until it is empty; the next event starts it again.
func (s *Server) handle() {
	for {
		s.host.mutex.Lock()
		if len(s.queue) == 0 {
			s.handling = false
			s.host.mutex.Unlock()
			return
		}
		event := s.queue[0]
		s.queue = s.queue[1:]
		s.host.taken(1)
		s.host.mutex.Unlock()
		s.spec.OnEvent(event)
	}
}

// abandon tells everybody who waits that the host is no more. Called with the lock.
func (s *Server) abandon(err error) {
	for id, call := range s.calls {
		delete(s.calls, id)
		call.err = err
		call.tell()
	}
	for id, stream := range s.streams {
		delete(s.streams, id)
		stream.waiting.err = err
		stream.waiting.tell()
	}
	s.ends()
}

// answer answers a request of the server.
func (s *Server) answer(ctx context.Context, event *Event) {
	result, err := any(nil), error(&RemoteError{Code: -32601, Body: refusal("this client does not answer " + event.Method)})
	if s.spec.OnRequest != nil {
		result, err = s.spec.OnRequest(ctx, event.Method, event.Body)
	}
	if err == nil {
		var json []byte
		if json, err = encode(result); err == nil {
			err = s.respond(ctx, func() C.int32_t {
				at, length := text(string(json))
				return C.mcp_supervised_respond(s.host.handle, s.peer, C.uint64_t(event.request), at, length)
			})
			if err == nil {
				return
			}
		}
	}
	var remote *RemoteError
	if !errors.As(err, &remote) {
		remote = &RemoteError{Code: -32603, Body: refusal(err.Error())}
	}
	var object struct {
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if json.Unmarshal(remote.Body, &object) != nil || object.Message == "" {
		object.Message = "the client refuses"
	}
	err = s.respond(ctx, func() C.int32_t {
		at, length := text(object.Message)
		data_at, data_length := text(string(object.Data))
		token, code := C.uint64_t(event.request), C.int64_t(remote.Code)
		return C.mcp_supervised_respond_error(s.host.handle, s.peer, token, code, at, length, data_at, data_length)
	})
	if err != nil {
		s.host.complain(err)
	}
}

// respond goes on when there is room. The server may have died, been closed or taken its question back meanwhile: then nobody
// waits for the answer.
func (s *Server) respond(ctx context.Context, send func() C.int32_t) error {
	for {
		s.host.mutex.Lock()
		err := s.host.judge(send)
		room := s.room
		s.host.mutex.Unlock()
		var refused *Error
		if errors.Is(err, ErrFreed) {
			return nil
		} else if !errors.As(err, &refused) {
			return err
		}
		switch refused.Status {
		case EClosed, ENoRequest, ENoPeer:
			return nil
		case EWouldBlock:
		default:
			return err
		}
		select {
		case <-room:
		case <-ctx.Done():
			return nil
		}
	}
}
