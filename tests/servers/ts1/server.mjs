// A small server on release 1 of the official TypeScript SDK, for tests against code that is not ours. Speaks the revisions
// before 2026-07-28 only.
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { SubscribeRequestSchema, UnsubscribeRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';

const COUNTER = 'mem://counter';
const say = value => ({ content: [{ type: 'text', text: String(value) }] });
const subscribed = new Set();
let count = 0;

const server = new McpServer(
  { name: 'mcp-supervised-ts1', version: '1.0.0' },
  { capabilities: { tools: { listChanged: true }, resources: { subscribe: true, listChanged: true }, logging: {} } },
);
server.server.setRequestHandler(SubscribeRequestSchema, async ({ params }) => {
  // The SDK leaves this to the server, and a client must cope with a refusal.
  if (params.uri !== COUNTER) throw new Error(`no resource ${params.uri}`);
  subscribed.add(params.uri);
  return {};
});
server.server.setRequestHandler(UnsubscribeRequestSchema, async ({ params }) => {
  subscribed.delete(params.uri);
  return {};
});
server.registerResource('counter', COUNTER, { mimeType: 'text/plain' }, async () => ({
  contents: [{ uri: COUNTER, text: String(count) }],
}));
const tool = (name, description, inputSchema, run) => server.registerTool(name, { description, inputSchema }, run);
tool('echo', 'says the message again', { message: z.string() }, async ({ message }) => say(message));
tool('pid', 'the process id', {}, async () => say(process.pid));
tool('crash', 'exits without an answer', { code: z.number().optional() }, async ({ code }) => process.exit(code ?? 13));
tool('sleep', 'answers after ms', { ms: z.number() }, async ({ ms }) => {
  await new Promise(resolve => setTimeout(resolve, ms));
  return say('slept');
});
tool('bump', 'counts up and tells the subscribers', {}, async () => {
  count++;
  if (subscribed.has(COUNTER)) await server.server.sendResourceUpdated({ uri: COUNTER });
  return say(count);
});
const extra = tool('extra', 'comes and goes', {}, async () => say('extra'));
extra.disable();
tool('flip', 'switches the tool extra on or off', {}, async () => {
  if (extra.enabled) extra.disable();
  else extra.enable();
  return say(extra.enabled);
});
// The SDK's way of asking the client back, which works while a call is open.
tool('ask', 'asks the client for a name', {}, async () => {
  const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
  const answer = await server.server.elicitInput({ message: 'name?', requestedSchema });
  return say(`hello ${answer.content?.name ?? answer.action}`);
});

console.error('ts1 is up');
await server.connect(new StdioServerTransport());
