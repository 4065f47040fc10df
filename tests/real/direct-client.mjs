// A direct client of another make: the official TypeScript SDK speaks the protocol, and the raw
// text of what the server sent is taken off the wire before any parser can drop, reorder or
// reformat a byte of it.
//
//   node direct-client.mjs '{"command":"…","args":[…],"env":{…},"calls":[["echo",{"message":"x"}]]}'
//   node direct-client.mjs '{"url":"http://127.0.0.1:1234/mcp", …}'
//
// Optional keys: capabilities, cwd, calls [[tool, arguments]], reads [uri], gets [[prompt, arguments]].
// Prints one JSON object. Values under initialize, tools, resources, templates, prompts (one
// string per item), calls, reads and gets are the raw JSON text, as strings.
import { spawn } from "node:child_process";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import * as schemas from "@modelcontextprotocol/sdk/types.js";
import { items, member } from "./raw-json.mjs";

const spec = JSON.parse(process.argv[2] ?? "{}");
const answers = new Map(); // request id -> raw text of the whole answer

function tap(text) {
  const line = text.trim();
  if (!line.startsWith("{")) return undefined;
  let message;
  try {
    message = JSON.parse(line);
  } catch {
    return undefined;
  }
  if (message.id !== undefined && message.method === undefined) answers.set(message.id, line);
  return message;
}

class TappedStdio {
  async start() {
    this.child = spawn(spec.command, spec.args ?? [], {
      env: { ...process.env, ...spec.env },
      cwd: spec.cwd,
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.child.on("error", (error) => this.onerror?.(error));
    this.child.on("close", () => this.onclose?.());
    let rest = "";
    this.child.stdout.setEncoding("utf8");
    this.child.stdout.on("data", (chunk) => {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        const message = tap(line);
        if (message) this.onmessage?.(message);
      }
    });
  }

  async send(message) {
    this.child.stdin.write(`${JSON.stringify(message)}\n`);
  }

  async close() {
    const gone = new Promise((resolve) => this.child.once("close", resolve));
    this.child.stdin.end();
    const timer = setTimeout(() => this.child.kill("SIGKILL"), 5000);
    await gone;
    clearTimeout(timer);
  }
}

// Answers over HTTP: the body is read once for the tap and handed on as it was. Server-sent
// events are tapped when their blank line has come.
async function tappedFetch(url, init) {
  const response = await fetch(url, init);
  if (!response.body) return response;
  const [ours, theirs] = response.body.tee();
  const events = (response.headers.get("content-type") ?? "").includes("text/event-stream");
  void drain(ours, events);
  return new Response(theirs, { status: response.status, headers: response.headers });
}

async function drain(stream, events) {
  let text = "";
  try {
    for await (const chunk of stream.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      if (!events) continue;
      const parts = text.split(/\r?\n\r?\n/);
      text = parts.pop();
      for (const part of parts) tapEvent(part);
    }
  } catch {
    return; // the stream was closed by us
  }
  if (!events) tap(text);
}

function tapEvent(part) {
  const data = part.split(/\r?\n/).filter((line) => line.startsWith("data:"));
  tap(data.map((line) => line.slice(5).replace(/^ /, "")).join("\n"));
}

// The SDK numbers its requests in order; the last one asked is the last id that was answered.
async function ask(client, request, schema) {
  let id;
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    if (message.method === request.method) id = message.id;
    return send(message, options);
  };
  try {
    await client.request(request, schema);
  } catch (error) {
    if (!answers.has(id)) throw error; // a JSON-RPC error is an answer too
  } finally {
    transport.send = send;
  }
  while (!answers.has(id)) await new Promise((resolve) => setImmediate(resolve)); // the tap may lag
  const text = answers.get(id);
  return { text, result: member(text, "result"), error: member(text, "error") };
}

async function list(client, method, key, schema) {
  const all = [];
  let cursor;
  do {
    const { result } = await ask(client, { method, params: cursor ? { cursor } : {} }, schema);
    if (result === undefined) return null;
    all.push(...items(member(result, key)));
    const next = member(result, "nextCursor");
    cursor = next ? JSON.parse(next) : undefined;
  } while (cursor);
  return all;
}

const transport = spec.url
  ? new StreamableHTTPClientTransport(new URL(spec.url), { fetch: tappedFetch })
  : new TappedStdio();
const client = new Client(
  { name: "callboard-direct-client", version: "1" },
  { capabilities: spec.capabilities ?? {} },
);
await client.connect(transport);

const offers = client.getServerCapabilities() ?? {};
const out = { initialize: member(answers.get(0), "result") };
out.tools = offers.tools ? await list(client, "tools/list", "tools", schemas.ListToolsResultSchema) : null;
out.resources = null;
out.templates = null;
if (offers.resources) {
  const templates = schemas.ListResourceTemplatesResultSchema;
  out.resources = await list(client, "resources/list", "resources", schemas.ListResourcesResultSchema);
  out.templates = await list(client, "resources/templates/list", "resourceTemplates", templates);
}
out.prompts = offers.prompts
  ? await list(client, "prompts/list", "prompts", schemas.ListPromptsResultSchema)
  : null;

async function each(requests, schema) {
  const results = [];
  for (const request of requests) {
    const { result, error } = await ask(client, request, schema);
    results.push(result ?? error);
  }
  return results;
}

out.calls = await each(
  (spec.calls ?? []).map(([name, args]) => ({ method: "tools/call", params: { name, arguments: args } })),
  schemas.CallToolResultSchema,
);
out.reads = await each(
  (spec.reads ?? []).map((uri) => ({ method: "resources/read", params: { uri } })),
  schemas.ReadResourceResultSchema,
);
out.gets = await each(
  (spec.gets ?? []).map(([name, args]) => ({ method: "prompts/get", params: { name, arguments: args } })),
  schemas.GetPromptResultSchema,
);

process.stdout.write(`${JSON.stringify(out)}\n`);
await client.close();
