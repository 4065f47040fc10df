// What the two TypeScript clients share: lists, calls, prints what was seen as one JSON object.
// The specification is that of modern.py.
export const elicited = () => ({ action: "accept", content: { username: "ada", email: "ada@example.org", response: "ada" } });
export const sampled = () => ({
  role: "assistant",
  content: { type: "text", text: "sampled" },
  model: "none",
  stopReason: "endTurn",
});

export async function look(client, spec) {
  const capabilities = client.getServerCapabilities() ?? {};
  const seen = { server: client.getServerVersion(), tools: (await client.listTools()).tools };
  if (capabilities.resources) {
    seen.resources = (await client.listResources()).resources;
    seen.templates = (await client.listResourceTemplates()).resourceTemplates;
  }
  if (capabilities.prompts) seen.prompts = (await client.listPrompts()).prompts;
  seen.calls = [];
  for (const [name, args] of spec.calls ?? []) seen.calls.push(await client.callTool({ name, arguments: args }));
  seen.reads = [];
  for (const uri of spec.reads ?? []) seen.reads.push(await client.readResource({ uri }));
  seen.gets = [];
  for (const [name, args] of spec.gets ?? []) seen.gets.push(await client.getPrompt({ name, arguments: args }));
  return seen;
}

export function environment(spec) {
  return { ...process.env, ...spec.env };
}
