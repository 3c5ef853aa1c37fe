package supervised

// #include <mcp_supervised.h>
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
)

// encode is json.Marshal, but that json.RawMessage goes as it is, and that nothing is escaped for the sake of HTML. nil is {}.
func encode(value any) ([]byte, error) {
	switch value := value.(type) {
	case nil:
		return []byte("{}"), nil
	case json.RawMessage:
		if len(value) == 0 {
			return nil, errors.New("supervised: an empty text is no JSON")
		}
		return value, nil
	}
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return []byte(strings.TrimSuffix(out.String(), "\n")), err
}

// member is one of a JSON object that keeps its order, and the bytes of what is JSON already.
type member struct {
	name  string
	value any
}

func object(members ...member) (json.RawMessage, error) {
	out := []byte{'{'}
	for _, m := range members {
		name, err := encode(m.name)
		if err != nil {
			return nil, err
		}
		value, err := encode(m.value)
		if err != nil {
			return nil, err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	return append(out, '}'), nil
}

func refusal(message string) json.RawMessage {
	text, err := object(member{"message", message})
	if err != nil {
		return nil
	}
	return text
}

func (s *Server) typed(ctx context.Context, method string, options []Options, members ...member) (*Result, error) {
	for _, o := range options {
		if o.Meta != nil {
			members = append(members, member{"_meta", o.Meta})
		}
		if o.InputResponses != nil {
			members = append(members, member{"inputResponses", o.InputResponses})
		}
		if len(o.RequestState) > 0 {
			members = append(members, member{"requestState", o.RequestState})
		}
	}
	params, err := object(members...)
	if err != nil {
		return nil, err
	}
	return s.Request(ctx, method, params, options...)
}

// Cursor is where a list goes on: the `nextCursor` of the page before. An empty one is a cursor, too. nil begins.
type Cursor *string

func (s *Server) list(ctx context.Context, method string, cursor Cursor, options []Options) (*Result, error) {
	if cursor == nil {
		return s.typed(ctx, method, options)
	}
	return s.typed(ctx, method, options, member{"cursor", *cursor})
}

// Discover asks what the server is and can.
func (s *Server) Discover(ctx context.Context, options ...Options) (*Result, error) {
	return s.typed(ctx, C.MCP_SUPERVISED_METHOD_DISCOVER, options)
}

// ListTools asks for the tools, one page.
func (s *Server) ListTools(ctx context.Context, cursor Cursor, options ...Options) (*Result, error) {
	return s.list(ctx, C.MCP_SUPERVISED_METHOD_TOOLS_LIST, cursor, options)
}

// ListResources asks for the resources, one page.
func (s *Server) ListResources(ctx context.Context, cursor Cursor, options ...Options) (*Result, error) {
	return s.list(ctx, C.MCP_SUPERVISED_METHOD_RESOURCES_LIST, cursor, options)
}

// ListResourceTemplates asks for the resource templates, one page.
func (s *Server) ListResourceTemplates(ctx context.Context, cursor Cursor, options ...Options) (*Result, error) {
	return s.list(ctx, C.MCP_SUPERVISED_METHOD_RESOURCES_TEMPLATES_LIST, cursor, options)
}

// ListPrompts asks for the prompts, one page.
func (s *Server) ListPrompts(ctx context.Context, cursor Cursor, options ...Options) (*Result, error) {
	return s.list(ctx, C.MCP_SUPERVISED_METHOD_PROMPTS_LIST, cursor, options)
}

// CallTool calls a tool. arguments is what becomes a JSON object: a map, a struct, a json.RawMessage, or nil.
func (s *Server) CallTool(ctx context.Context, name string, arguments any, options ...Options) (*Result, error) {
	return s.typed(ctx, C.MCP_SUPERVISED_METHOD_TOOLS_CALL, options, member{"name", name}, member{"arguments", arguments})
}

// ReadResource reads a resource.
func (s *Server) ReadResource(ctx context.Context, uri string, options ...Options) (*Result, error) {
	return s.typed(ctx, C.MCP_SUPERVISED_METHOD_RESOURCES_READ, options, member{"uri", uri})
}

// GetPrompt fills a prompt in.
func (s *Server) GetPrompt(ctx context.Context, name string, arguments map[string]string, options ...Options) (*Result, error) {
	if arguments == nil {
		arguments = map[string]string{}
	}
	return s.typed(ctx, C.MCP_SUPERVISED_METHOD_PROMPTS_GET, options, member{"name", name}, member{"arguments", arguments})
}

// Reference is what an argument belongs to: a prompt, or a resource template.
type Reference struct {
	Prompt      string
	URITemplate string
}

// Complete asks for proposals for an argument that has begun. known are the arguments that are settled, or nil.
func (s *Server) Complete(ctx context.Context, of Reference, argument, begun string, known map[string]string, options ...Options) (*Result, error) {
	ref := map[string]string{"type": "ref/prompt", "name": of.Prompt}
	if of.Prompt == "" {
		ref = map[string]string{"type": "ref/resource", "uri": of.URITemplate}
	}
	members := []member{{"ref", ref}, {"argument", map[string]string{"name": argument, "value": begun}}}
	if known != nil {
		members = append(members, member{"context", map[string]any{"arguments": known}})
	}
	return s.typed(ctx, C.MCP_SUPERVISED_METHOD_COMPLETE, options, members...)
}

// Filter is what a stream is to tell of.
type Filter struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
}

// Listen opens a stream.
func (s *Server) Listen(filter Filter) (*Stream, error) {
	json, err := encode(filter)
	if err != nil {
		return nil, err
	}
	var id C.mcp_supervised_request_id
	at, length := text(string(json))
	s.host.mutex.Lock()
	defer s.host.mutex.Unlock()
	err = s.host.judge(func() C.int32_t {
		return C.mcp_supervised_listen(s.host.handle, s.peer, at, length, 0, &id)
	})
	if err != nil {
		return nil, err
	}
	stream := &Stream{server: s, id: uint64(id), waiting: call{news: make(chan struct{}, 1)}}
	s.streams[stream.id] = stream
	return stream, nil
}
