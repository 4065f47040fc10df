// A client of the TypeScript SDK that speaks the legacy era alone.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CreateMessageRequestSchema, ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { elicited, environment, look, sampled } from "./look.mjs";

const spec = JSON.parse(process.argv[2]);
const client = new Client(
  { name: "legacy-client", version: "1" },
  { capabilities: { elicitation: {}, sampling: {} } },
);
client.setRequestHandler(ElicitRequestSchema, elicited);
client.setRequestHandler(CreateMessageRequestSchema, sampled);
const transport = spec.url
  ? new StreamableHTTPClientTransport(new URL(spec.url))
  : new StdioClientTransport({ command: spec.command, args: spec.args ?? [], env: environment(spec) });
await client.connect(transport);
const seen = await look(client, spec);
await client.close();
console.log(JSON.stringify(seen));
