"""A client of the last Python SDK that speaks the legacy era alone; takes and prints what modern.py does."""
import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


ANSWERS = {"username": "ada", "email": "ada@example.org", "response": "ada"}


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def elicited(context, params):
    return types.ElicitResult(action="accept", content=ANSWERS)


async def sampled(context, params):
    text = types.TextContent(type="text", text="sampled")
    return types.CreateMessageResult(role="assistant", content=text, model="none", stopReason="endTurn")


async def look(read, write, spec):
    seen = {}
    async with ClientSession(read, write, elicitation_callback=elicited, sampling_callback=sampled) as session:
        hello = await session.initialize()
        seen["revision"] = str(hello.protocolVersion)
        seen["server"] = plain(hello.serverInfo)
        capabilities = plain(hello.capabilities)
        seen["tools"] = [plain(tool) for tool in (await session.list_tools()).tools]
        if "resources" in capabilities:
            seen["resources"] = [plain(one) for one in (await session.list_resources()).resources]
            templates = await session.list_resource_templates()
            seen["templates"] = [plain(one) for one in templates.resourceTemplates]
        if "prompts" in capabilities:
            seen["prompts"] = [plain(one) for one in (await session.list_prompts()).prompts]
        seen["calls"] = [plain(await session.call_tool(name, args)) for name, args in spec.get("calls", [])]
        seen["reads"] = [plain(await session.read_resource(uri)) for uri in spec.get("reads", [])]
        seen["gets"] = [plain(await session.get_prompt(name, args)) for name, args in spec.get("gets", [])]
    print(json.dumps(seen))


async def main():
    spec = json.loads(sys.argv[1])
    if "url" in spec:
        async with streamablehttp_client(spec["url"]) as (read, write, _):
            await look(read, write, spec)
    else:
        env = {**os.environ, **spec.get("env", {})}
        server = StdioServerParameters(command=spec["command"], args=spec.get("args", []), env=env)
        async with stdio_client(server) as (read, write):
            await look(read, write, spec)


asyncio.run(main())
