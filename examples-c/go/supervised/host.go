// Package supervised runs MCP servers under supervision: libmcp_supervised for Go, by cgo.
//
// A server is a child process that can die; it is replaced within a budget, and every call ends exactly once:
//
//	host, err := supervised.New(nil)
//	server, err := host.Add(supervised.Spec{Command: "my-mcp-server", Args: []string{"--stdio"}})
//	err = server.Start()
//	result, err := server.CallTool(ctx, "echo", map[string]any{"message": "hello"})
//
// Everything may be called from any goroutine. One goroutine of the host waits for the library's one descriptor in the runtime's
// netpoller, so no thread blocks in C, however many servers and calls there are; those who wait for answers wait in channels.
// (Close alone may take up to a second in C, while it kills what still runs.)
//
// What the calls mean, and which errors they have, is told by the comments of include/mcp_supervised.h at the C function of the
// same name. JSON comes out as json.RawMessage, byte for byte as the server wrote it.
//
// Building needs CGO_LDFLAGS with the directory of the library, and, where the package does not lie in its repository, CGO_CFLAGS
// with that of the header:
//
//	CGO_CFLAGS=-I/opt/mcp/include CGO_LDFLAGS='-L/opt/mcp/lib -Wl,-rpath,/opt/mcp/lib' go build
package supervised

/*
#cgo CFLAGS: -I${SRCDIR}/../../../include
#cgo LDFLAGS: -lmcp_supervised
#include <stdlib.h>
#include <mcp_supervised.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// How many events one poll hands out.
const batch = 64

// Events that may wait for handlers before the host takes no more, while nobody waits for an answer.
const enough = 1024

// ErrFreed is what calls end with when the host was closed under them.
var ErrFreed = errors.New("supervised: the host was closed")

// Config has the options of a host.
type Config struct {
	// ManualClock: the clock is moved by Advance alone. For tests of hosts.
	ManualClock bool
	// LogLevel is what the library tells of its own: LogError, LogWarning (0 stands for it) or LogInfo.
	LogLevel LogLevel
	// OnError is told of what has no other place: a failing poll, an answer to a server that could not be sent. May be nil.
	OnError func(error)
}

// Host is the handle: any number of servers, and the goroutine that drives them.
type Host struct {
	onError func(error)
	file    *os.File // a copy of the library's descriptor, watched by the netpoller
	pumped  chan struct{}

	mutex   sync.Mutex
	cond    *sync.Cond // queued, waiting and closed
	handle  *C.mcp_supervised
	events  *C.mcp_supervised_event // batch of them, in C's memory
	servers map[C.mcp_supervised_peer]*Server
	queued  int  // events that wait for handlers
	waiting int  // calls that wait for answers, and closes and shutdowns for an end
	closed  bool // nothing more comes
	freed   bool
	over    chan struct{} // closed by the SHUTDOWN event
}

// New makes a host. config may be nil.
func New(config *Config) (*Host, error) {
	if abi := C.mcp_supervised_abi_version(); abi != C.MCP_SUPERVISED_ABI_VERSION {
		return nil, fmt.Errorf("supervised: the library has the ABI number %d, the header %d", abi, C.MCP_SUPERVISED_ABI_VERSION)
	}
	if config == nil {
		config = &Config{}
	}
	var options *C.mcp_supervised_config
	if status := C.mcp_supervised_config_new(&options); status < 0 {
		return nil, &Error{Status: Status(status)}
	}
	defer C.mcp_supervised_config_free(options)
	C.mcp_supervised_config_manual_clock(options, number(config.ManualClock))
	if config.LogLevel != 0 {
		C.mcp_supervised_config_log_level(options, C.uint32_t(config.LogLevel))
	}
	h := &Host{
		onError: config.OnError,
		pumped:  make(chan struct{}),
		servers: make(map[C.mcp_supervised_peer]*Server),
		over:    make(chan struct{}),
	}
	h.cond = sync.NewCond(&h.mutex)
	var why [256]C.char
	if status := C.mcp_supervised_new(options, &h.handle, &why[0], C.size_t(len(why))); status < 0 {
		return nil, &Error{Status: Status(status), Text: C.GoString(&why[0])}
	}
	if err := h.watch(); err != nil {
		C.mcp_supervised_free(h.handle)
		return nil, err
	}
	h.events = (*C.mcp_supervised_event)(C.calloc(batch, C.sizeof_mcp_supervised_event))
	go h.pump()
	return h, nil
}

// watch hands a copy of the descriptor to the netpoller. The library's own stays with the library.
func (h *Host) watch() error {
	fd := C.mcp_supervised_fd(h.handle)
	if fd < 0 {
		return h.failure(fd)
	}
	copied, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return os.NewSyscallError("fcntl", errno)
	}
	// os.NewFile gives only non-blocking descriptors to the netpoller. The flag is one of the open file, which both numbers
	// share; the library never reads or writes this one, so it means nothing to it.
	if err := syscall.SetNonblock(int(copied), true); err != nil {
		syscall.Close(int(copied))
		return os.NewSyscallError("fcntl", err)
	}
	h.file = os.NewFile(copied, "mcp_supervised")
	// Only what the netpoller watches takes deadlines: without it, the goroutine would block a thread.
	if err := h.file.SetReadDeadline(time.Time{}); err != nil {
		h.file.Close()
		return fmt.Errorf("supervised: the netpoller does not take the descriptor: %w", err)
	}
	return nil
}

// pump drives the library until the host is closed. The descriptor reports edges to the netpoller: a poll that leaves something
// undone is a new edge, and one that comes between the poll and the wait is kept by it.
func (h *Host) pump() {
	defer close(h.pumped)
	conn, err := h.file.SyscallConn()
	for err == nil {
		err = conn.Read(func(uintptr) bool {
			count := h.turn()
			return count != 0 // 0: park until there is something new
		})
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if !h.closed { // a closed file is how the pump is ended
		h.end(err)
		h.complain(err)
	}
}

// turn polls once and hands out what came. The result is that of the poll.
func (h *Host) turn() C.int32_t {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	// Readers that are too slow stop the host, and so, through full pipes, the servers. But never while somebody waits for an
	// answer or an end: it may be the reader itself, who would wait for ever.
	for h.queued >= enough && h.waiting == 0 && !h.closed {
		h.cond.Wait()
	}
	if h.closed {
		return 0
	}
	count := C.mcp_supervised_poll(h.handle, h.events, C.sizeof_mcp_supervised_event, batch, 0)
	if count < 0 {
		// The handle is of no use any more. Closing the file ends the pump; who waits is told.
		err := h.failure(count)
		go h.file.Close() // which waits until this is left
		h.end(err)
		h.complain(err)
		return count
	}
	for _, raw := range unsafe.Slice(h.events, int(count)) {
		event := copied(&raw)
		if event.Kind == Shutdown {
			close(h.over)
		} else if server := h.servers[raw.peer]; server != nil {
			server.take(event)
		}
	}
	return count
}

func (h *Host) complain(err error) {
	if h.onError != nil {
		go h.onError(err)
	}
}

// Add adds a server, which Start starts.
func (h *Host) Add(spec Spec) (*Server, error) {
	raw, err := spec.build()
	if err != nil {
		return nil, err
	}
	defer C.mcp_supervised_spec_free(raw)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	server := newServer(h, &spec)
	err = h.judge(func() C.int32_t { return C.mcp_supervised_add(h.handle, raw, 0, &server.peer) })
	if err != nil {
		return nil, err
	}
	h.servers[server.peer] = server
	return server, nil
}

// Shutdown closes every server, kills what is left after the grace, and returns when all have ended. Close is still to be called.
func (h *Host) Shutdown(grace time.Duration) error {
	ms, err := millis(grace)
	if err != nil {
		return err
	}
	h.mutex.Lock()
	err = h.judge(func() C.int32_t { return C.mcp_supervised_shutdown(h.handle, ms) })
	if err == nil {
		h.waits(1) // it goes on inside poll: no reader may hold it up
	}
	h.mutex.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-h.over:
	case <-h.pumped:
		err = ErrFreed
	}
	h.mutex.Lock()
	h.waits(-1)
	h.mutex.Unlock()
	return err
}

// Advance moves a manual clock.
func (h *Host) Advance(by time.Duration) error {
	if by < 0 {
		return &Error{Status: EInvalid, Text: "a clock does not go back"}
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.judge(func() C.int32_t { return C.mcp_supervised_advance(h.handle, C.uint64_t(by)) })
}

// Close kills what still runs and frees everything. Calls and streams that are under way end with ErrFreed.
func (h *Host) Close() error {
	h.mutex.Lock()
	if h.freed {
		h.mutex.Unlock()
		return nil
	}
	h.freed = true
	if !h.closed {
		h.end(ErrFreed)
	}
	h.mutex.Unlock()
	// First out of the netpoller, then freed. The pump leaves by itself.
	h.file.Close()
	<-h.pumped
	h.mutex.Lock()
	defer h.mutex.Unlock()
	status := C.mcp_supervised_free(h.handle)
	h.handle = nil
	C.free(unsafe.Pointer(h.events))
	h.events = nil
	if status < 0 {
		return &Error{Status: Status(status)}
	}
	return nil
}

// end tells everybody that nothing more comes. Called with the lock.
func (h *Host) end(err error) {
	h.closed = true
	for _, server := range h.servers {
		server.abandon(err)
	}
	h.cond.Broadcast()
}

// judge makes one call of the library and, with the same lock held, asks for the text of its failure.
func (h *Host) judge(call func() C.int32_t) error {
	if h.closed {
		return ErrFreed
	}
	return h.failure(call())
}

func (h *Host) failure(status C.int32_t) error {
	if status >= 0 {
		return nil
	}
	var text *C.char
	var length C.size_t
	err := &Error{Status: Status(status)}
	switch err.Status {
	case EBusy, EForked, EBadHandle, EPanic: // these leave the text of an earlier failure in place
	default:
		if C.mcp_supervised_last_error(h.handle, &text, &length) >= 0 {
			err.Text = C.GoStringN(text, C.int(length))
		}
	}
	return err
}

func number(on bool) C.uint32_t {
	if on {
		return 1
	}
	return 0
}

// Version is the version of the library that is loaded.
func Version() string { return C.GoString(C.mcp_supervised_version()) }
