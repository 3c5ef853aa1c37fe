// A small server on the official TypeScript SDK, for tests against code that is not ours. Speaks MCP 2026-07-28 (and, unless
// --modern-only is given, the older revisions). Run it with its own directory's node_modules in reach.
import { McpServer, fromJsonSchema, inputRequired } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const COUNTER = 'mem://counter';
const schema = (properties = {}, required = []) => fromJsonSchema({ type: 'object', properties, required });
const say = value => ({ content: [{ type: 'text', text: String(value) }] });
const pause = ms => new Promise(resolve => setTimeout(resolve, ms));
let count = 0;

function makeServer() {
  const server = new McpServer(
    { name: 'mcp-supervised-ts2', version: '1.0.0' },
    { capabilities: { tools: { listChanged: true }, resources: { subscribe: true, listChanged: true }, logging: {} } },
  );
  const tool = (name, description, properties, run, required = []) =>
    server.registerTool(name, { description, inputSchema: schema(properties, required) }, run);

  server.registerResource('counter', COUNTER, { mimeType: 'text/plain' }, async () => ({
    contents: [{ uri: COUNTER, text: String(count) }],
  }));
  tool('echo', 'says the message again', { message: { type: 'string' } }, async ({ message }) => say(message), ['message']);
  tool('pid', 'the process id', {}, async () => say(process.pid));
  tool('crash', 'exits without an answer', { code: { type: 'integer' } }, async ({ code }) => process.exit(code ?? 13));
  tool('sleep', 'answers after ms, in four steps of progress', { ms: { type: 'integer' } }, async ({ ms }, context) => {
    const token = context.mcpReq._meta?.progressToken;
    for (let step = 1; step <= 4; step++) {
      await pause(ms / 4);
      if (token !== undefined) {
        const params = { progressToken: token, progress: step, total: 4 };
        await context.mcpReq.notify({ method: 'notifications/progress', params });
      }
    }
    return say('slept');
  }, ['ms']);
  tool('bump', 'counts up and tells the subscribers', {}, async () => {
    count++;
    await server.server.sendResourceUpdated({ uri: COUNTER });
    return say(count);
  });
  const extra = server.registerTool('extra', { description: 'comes and goes' }, async () => say('extra'));
  extra.disable();
  tool('flip', 'switches the tool extra on or off', {}, async () => {
    if (extra.enabled) extra.disable();
    else extra.enable();
    return say(extra.enabled);
  });
  server.registerTool('ask', { description: 'asks back once' }, async context => {
    const answer = context.mcpReq.inputResponses?.name;
    if (answer) return say(`hello ${answer.content?.name ?? answer.action}`);
    const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
    return inputRequired({
      inputRequests: { name: inputRequired.elicit({ message: 'name?', requestedSchema }) },
      requestState: 'state-1',
    });
  });
  return server;
}

const options = new Set(process.argv.slice(2));
console.error('ts2 is up');
const running = serveStdio(makeServer, { legacy: options.has('--modern-only') ? 'reject' : 'serve' });
if (options.has('--graceful')) {
  for (const signal of ['SIGTERM', 'SIGINT']) {
    process.on(signal, async () => {
      await running.close();
      process.exit(0);
    });
  }
}
