"""A client of the modern Python SDK: lists, calls, prints what it saw as one JSON object.

python modern.py '{"command": "...", "args": [...], "env": {...}, "calls": [["echo", {"message": "x"}]]}'
python modern.py '{"url": "http://127.0.0.1:1234/mcp", ...}'

Optional keys: mode ("auto" or "legacy"), calls [[tool, arguments]], reads [uri], gets [[prompt, arguments]].
It answers an elicitation with ANSWERS and a sampling request with "sampled".
"""
import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters
from mcp import types


ANSWERS = {"username": "ada", "email": "ada@example.org", "response": "ada"}


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def elicited(context, params):
    return types.ElicitResult(action="accept", content=ANSWERS)


async def sampled(context, params):
    text = types.TextContent(type="text", text="sampled")
    return types.CreateMessageResult(role="assistant", content=text, model="none", stop_reason="endTurn")


async def main():
    spec = json.loads(sys.argv[1])
    if "url" in spec:
        target = spec["url"]
    else:
        env = {**os.environ, **spec.get("env", {})}
        target = StdioServerParameters(command=spec["command"], args=spec.get("args", []), env=env)
    mode = spec.get("mode", "auto")
    client = Client(target, mode=mode, elicitation_callback=elicited, sampling_callback=sampled)
    seen = {}
    async with client:
        seen["revision"] = str(client.protocol_version)
        seen["server"] = plain(client.server_info)
        capabilities = plain(client.server_capabilities)
        seen["tools"] = [plain(tool) for tool in (await client.list_tools()).tools]
        if "resources" in capabilities:
            seen["resources"] = [plain(one) for one in (await client.list_resources()).resources]
            templates = await client.list_resource_templates()
            seen["templates"] = [plain(one) for one in templates.resource_templates]
        if "prompts" in capabilities:
            seen["prompts"] = [plain(one) for one in (await client.list_prompts()).prompts]
        seen["calls"] = [plain(await client.call_tool(name, args)) for name, args in spec.get("calls", [])]
        seen["reads"] = [plain(await client.read_resource(uri)) for uri in spec.get("reads", [])]
        seen["gets"] = [plain(await client.get_prompt(name, args)) for name, args in spec.get("gets", [])]
    print(json.dumps(seen))


asyncio.run(main())
