"""A server over stdio whose answer to tools/list is the text of its first argument, whatever that is.
Each call answers with the name of the tool."""
import json
import sys

listed = sys.argv[1]


def answer(message, result):
    print('{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(message["id"]), result), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if "id" not in message:
        continue
    if method == "initialize":
        hello = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}
        answer(message, json.dumps(hello))
    elif method == "tools/list":
        answer(message, listed)
    elif method == "tools/call":
        answer(message, json.dumps({"content": [{"type": "text", "text": message["params"]["name"]}]}))
    elif method == "ping":
        answer(message, "{}")
    else:
        error = {"code": -32601, "message": "no such method"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
