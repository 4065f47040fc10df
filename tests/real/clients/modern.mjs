// A client of the TypeScript SDK that speaks both eras. `mode` is "auto" (the default) or "legacy".
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { elicited, environment, look, sampled } from "./look.mjs";

const spec = JSON.parse(process.argv[2]);
const client = new Client(
  { name: "modern-client", version: "1" },
  { capabilities: { elicitation: {}, sampling: {} }, versionNegotiation: { mode: spec.mode ?? "auto" } },
);
client.setRequestHandler("elicitation/create", elicited);
client.setRequestHandler("sampling/createMessage", sampled);
const transport = spec.url
  ? new StreamableHTTPClientTransport(new URL(spec.url))
  : new StdioClientTransport({ command: spec.command, args: spec.args ?? [], env: environment(spec) });
await client.connect(transport);
const seen = { revision: client.getNegotiatedProtocolVersion?.(), ...(await look(client, spec)) };
await client.close();
console.log(JSON.stringify(seen));
