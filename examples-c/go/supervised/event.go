package supervised

// #include <mcp_supervised.h>
import "C"

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
	"unsafe"
)

// Kind is what an event is about.
type Kind uint32

const (
	Message   Kind = C.MCP_SUPERVISED_EVENT_MESSAGE
	Close     Kind = C.MCP_SUPERVISED_EVENT_CLOSE
	Reconnect Kind = C.MCP_SUPERVISED_EVENT_RECONNECT
	Failure   Kind = C.MCP_SUPERVISED_EVENT_ERROR
	Exhausted Kind = C.MCP_SUPERVISED_EVENT_EXHAUSTED
	Ready     Kind = C.MCP_SUPERVISED_EVENT_READY
	Drain     Kind = C.MCP_SUPERVISED_EVENT_DRAIN
	Log       Kind = C.MCP_SUPERVISED_EVENT_LOG
	Writable  Kind = C.MCP_SUPERVISED_EVENT_WRITABLE
	Wakeup    Kind = C.MCP_SUPERVISED_EVENT_WAKEUP
	Shutdown  Kind = C.MCP_SUPERVISED_EVENT_SHUTDOWN
)

// MessageKind is what kind of message a Message is.
type MessageKind uint32

const (
	ResultMessage       MessageKind = C.MCP_SUPERVISED_MESSAGE_RESULT
	ErrorMessage        MessageKind = C.MCP_SUPERVISED_MESSAGE_REMOTE_ERROR
	NotificationMessage MessageKind = C.MCP_SUPERVISED_MESSAGE_NOTIFICATION
	RequestMessage      MessageKind = C.MCP_SUPERVISED_MESSAGE_REQUEST
	UnmatchedMessage    MessageKind = C.MCP_SUPERVISED_MESSAGE_UNMATCHED
)

// Flags are those of an event.
type Flags uint32

const (
	Complete        Flags = C.MCP_SUPERVISED_FLAG_COMPLETE
	Final           Flags = C.MCP_SUPERVISED_FLAG_FINAL
	WillReconnect   Flags = C.MCP_SUPERVISED_FLAG_WILL_RECONNECT
	Retried         Flags = C.MCP_SUPERVISED_FLAG_RETRIED
	Unread          Flags = C.MCP_SUPERVISED_FLAG_UNREAD
	InputRequired   Flags = C.MCP_SUPERVISED_FLAG_INPUT_REQUIRED
	OtherResultType Flags = C.MCP_SUPERVISED_FLAG_OTHER_RESULT_TYPE
	Emulated        Flags = C.MCP_SUPERVISED_FLAG_EMULATED
	ServerChanged   Flags = C.MCP_SUPERVISED_FLAG_SERVER_CHANGED
	ByPeer          Flags = C.MCP_SUPERVISED_FLAG_BY_PEER
	ExitUnknown     Flags = C.MCP_SUPERVISED_FLAG_EXIT_UNKNOWN
)

// Has tells whether all of these are set.
func (f Flags) Has(flag Flags) bool { return f&flag == flag }

// Era is what a connection speaks.
type Era uint32

const (
	ModernEra Era = C.MCP_SUPERVISED_ERA_MODERN
	LegacyEra Era = C.MCP_SUPERVISED_ERA_LEGACY
)

// LogLevel is how bad a Log is, and where it comes from.
type LogLevel int32

const (
	LogServer  LogLevel = C.MCP_SUPERVISED_LOG_SERVER
	LogError   LogLevel = C.MCP_SUPERVISED_LOG_ERROR
	LogWarning LogLevel = C.MCP_SUPERVISED_LOG_WARNING
	LogInfo    LogLevel = C.MCP_SUPERVISED_LOG_INFO
)

// State is that of a server.
type State int32

const (
	Idle     State = C.MCP_SUPERVISED_STATE_IDLE
	Starting State = C.MCP_SUPERVISED_STATE_STARTING
	Running  State = C.MCP_SUPERVISED_STATE_RUNNING
	Ending   State = C.MCP_SUPERVISED_STATE_ENDING
	Waiting  State = C.MCP_SUPERVISED_STATE_WAITING
	Draining State = C.MCP_SUPERVISED_STATE_DRAINING
	Closing  State = C.MCP_SUPERVISED_STATE_CLOSING
	Closed   State = C.MCP_SUPERVISED_STATE_CLOSED
)

// Status is what the library answers to a call that failed.
type Status int32

const (
	ENull            Status = C.MCP_SUPERVISED_E_NULL
	EInvalid         Status = C.MCP_SUPERVISED_E_INVALID
	EBadHandle       Status = C.MCP_SUPERVISED_E_BAD_HANDLE
	EBusy            Status = C.MCP_SUPERVISED_E_BUSY
	EForked          Status = C.MCP_SUPERVISED_E_FORKED
	EPanic           Status = C.MCP_SUPERVISED_E_PANIC
	ENoPeer          Status = C.MCP_SUPERVISED_E_NO_PEER
	ENotStarted      Status = C.MCP_SUPERVISED_E_NOT_STARTED
	EAlreadyStarted  Status = C.MCP_SUPERVISED_E_ALREADY_STARTED
	EClosed          Status = C.MCP_SUPERVISED_E_CLOSED
	ENotClosed       Status = C.MCP_SUPERVISED_E_NOT_CLOSED
	EWouldBlock      Status = C.MCP_SUPERVISED_E_WOULD_BLOCK
	EUnsupported     Status = C.MCP_SUPERVISED_E_UNSUPPORTED
	ESpawn           Status = C.MCP_SUPERVISED_E_SPAWN
	EIO              Status = C.MCP_SUPERVISED_E_IO
	EMalformed       Status = C.MCP_SUPERVISED_E_MALFORMED
	EFrameTooLarge   Status = C.MCP_SUPERVISED_E_FRAME_TOO_LARGE
	EProtocol        Status = C.MCP_SUPERVISED_E_PROTOCOL
	EHandshake       Status = C.MCP_SUPERVISED_E_HANDSHAKE
	ETimeout         Status = C.MCP_SUPERVISED_E_TIMEOUT
	ECancelled       Status = C.MCP_SUPERVISED_E_CANCELLED
	EExhausted       Status = C.MCP_SUPERVISED_E_EXHAUSTED
	ENoRequest       Status = C.MCP_SUPERVISED_E_NO_REQUEST
	EDeliveryDropped Status = C.MCP_SUPERVISED_E_DELIVERY_DROPPED
)

func (s Status) String() string { return C.GoString(C.mcp_supervised_status_name(C.int32_t(s))) }

// Error is a call that the library refused, or a request or a stream that ended without an answer. Flags are those of the event
// that ended it: with Unread the dead server cannot have read a byte of it, and even a tools/call is safe to repeat.
//
//	var lost *supervised.Error
//	if errors.As(err, &lost) && lost.Status == supervised.EClosed && lost.Flags.Has(supervised.Unread) { ... }
type Error struct {
	Status Status
	Text   string
	Flags  Flags
}

func (e *Error) Error() string {
	if e.Text == "" {
		return e.Status.String()
	}
	return e.Status.String() + ": " + e.Text
}

// RemoteError is an error that the server answered.
type RemoteError struct {
	Code int64
	// Body is the error object as it came.
	Body json.RawMessage
}

func (e *RemoteError) Error() string {
	var object struct{ Message string }
	if json.Unmarshal(e.Body, &object) != nil {
		return fmt.Sprintf("%d", e.Code)
	}
	return fmt.Sprintf("%d: %s", e.Code, object.Message)
}

// Event is one event, copied out. Fields that an event does not use are zero.
type Event struct {
	Kind        Kind
	Flags       Flags
	Status      int32 // of a Failure a Status, of a Close its reason, of a Log a LogLevel
	MessageKind MessageKind
	ErrorCode   int64
	ExitCode    int
	Signal      int
	Pid         int
	Life        uint32
	Attempt     uint32
	MaxRestarts uint32
	Delay       time.Duration
	Uptime      time.Duration
	Count       uint64
	UnreadFrom  uint64
	Era         Era
	Payload     []byte // the whole line, or the text
	Method      string
	Body        json.RawMessage // the result, the params or the error object
	ID          json.RawMessage

	request uint64
}

// copied copies an event while its texts are valid. The smaller texts are pieces of the payload, also in the copy.
func copied(raw *C.mcp_supervised_event) *Event {
	payload := bytes(raw.payload, raw.payload_len)
	piece := func(at *C.char, length C.size_t) []byte {
		if at == nil {
			return nil
		}
		from := uintptr(unsafe.Pointer(at)) - uintptr(unsafe.Pointer(raw.payload))
		to := from + uintptr(length)
		return payload[from:to:to]
	}
	return &Event{
		Kind:        Kind(raw.kind),
		Flags:       Flags(raw.flags),
		Status:      int32(raw.status),
		MessageKind: MessageKind(raw.message_kind),
		ErrorCode:   int64(raw.error_code),
		ExitCode:    int(raw.exit_code),
		Signal:      int(raw.signal),
		Pid:         int(raw.pid),
		Life:        uint32(raw.life),
		Attempt:     uint32(raw.attempt),
		MaxRestarts: uint32(raw.max_restarts),
		Delay:       duration(raw.delay_ms),
		Uptime:      duration(raw.uptime_ms),
		Count:       uint64(raw.count),
		UnreadFrom:  uint64(raw.unread_from),
		Era:         Era(raw.era),
		Payload:     payload,
		Method:      string(piece(raw.method, raw.method_len)),
		Body:        piece(raw.body, raw.body_len),
		ID:          piece(raw.id, raw.id_len),
		request:     uint64(raw.request),
	}
}

// bytes copies; C.GoBytes takes lengths up to 2 GiB, and no line is longer than one.
func bytes(at *C.char, length C.size_t) []byte {
	if at == nil {
		return nil
	}
	return C.GoBytes(unsafe.Pointer(at), C.int(length))
}

func duration(ms C.uint64_t) time.Duration {
	if uint64(ms) > math.MaxInt64/uint64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}

// Never is a time without end.
const Never time.Duration = math.MaxInt64

// millis rounds up. A time below 0 is a mistake that must not become a very long one.
func millis(d time.Duration) (C.uint64_t, error) {
	if d < 0 {
		return 0, &Error{Status: EInvalid, Text: "a time below 0"}
	}
	if d == Never {
		return math.MaxUint64, nil
	}
	ms := d / time.Millisecond
	if d%time.Millisecond > 0 {
		ms++
	}
	return C.uint64_t(ms), nil
}
