"""Make the pages of the site that come out of the code: commands, schema, queries, signatures.

MkDocs calls ``on_files`` (``hooks`` in mkdocs.yml). Nothing is written beside the site.
"""

from __future__ import annotations

import argparse
import inspect
import json
import textwrap
from collections.abc import Sequence
from typing import Any, get_args, get_origin

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from whyhang import signatures
from whyhang.analyzer.cli import parser
from whyhang.analyzer.commands import COMMANDS
from whyhang.analyzer.commands.explain import filled, story_of
from whyhang.analyzer.findings.categories import CATEGORIES
from whyhang.analyzer.findings.signature import Signature
from whyhang.analyzer.queries.asked import PLAIN, arguments_of, words_of
from whyhang.analyzer.queries.registry import Answers, queries
from whyhang.analyzer.report import schema
from whyhang.analyzer.reports.finding import is_command


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    known = signatures.load()
    pages = {
        "commands.md": commands_page(),
        "schema.md": schema_page(),
        "queries.md": queries_page(),
        "signatures/index.md": index_page(known),
        **{f"signatures/{each.id}.md": signature_page(each) for each in known},
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def commands_page() -> str:
    """Return what ``--help`` says of each command."""
    parts = ["# Commands", "", _fence(_help(None))]
    for name, sentence in COMMANDS.items():
        parts += ["", f"## whyhang {name}", "", sentence, "", _fence(_help(name))]
    return "\n".join(parts) + "\n"


def schema_page() -> str:
    """Return the contract of the JSON report: its records, a table each, and the schema."""
    whole = schema()
    parts = [
        "# The JSON report",
        "",
        "What `--format json` prints and `-o FILE.json` writes. Names do not change their meaning;",
        "fields may be added. `whyhang schema` prints the schema below.",
    ]
    for name, record in whole["$defs"].items():
        parts += ["", f"## {name}", "", record.get("description", ""), ""]
        parts += ["| field | type |", "| --- | --- |"]
        parts += [
            f"| `{field}` | {_type(value)} |" for field, value in record["properties"].items()
        ]
    parts += ["", "## Schema", "", _fence(json.dumps(whole, indent=2), "json")]
    return "\n".join(parts) + "\n"


def queries_page() -> str:
    """Return what cards may ask: each query with what it says, and its arguments."""
    parts = [
        "# Queries",
        "",
        "What a card may ask of a job beside its log lines, with arguments by name, as",
        '`asks = [{ query = "lagging", kinds = ["lock"] }]`. Each answers with the ranks to look',
        "at first, those who wait because of them, evidence, and fields for the words of the card.",
    ]
    for name, query in queries().items():
        parts += ["", f"## {name}", ""]
        if query.argument:
            for word, function in query.sides.items():
                says = " ".join(_doc(function).split())
                parts.append(f'- `{query.argument} = "{word}"`: {says}')
            continue
        parts += [_doc(query.sides[""]), ""]
        parts += [
            f"- `{key}`: {'any of ' if repeats else ''}{_argument(of)}"
            for key, (of, repeats) in arguments_of(name).items()
        ]
    return "\n".join(parts) + "\n"


def index_page(known: Sequence[Signature]) -> str:
    """Return the list of all signatures by topic and category."""
    parts = [
        "# Signatures",
        "",
        f"{len(known)} signatures of {len({each.category for each in known})} categories.",
        "Each page is made from the file of the signature;",
        "`whyhang explain NAME` says the same in a terminal.",
    ]
    for topic, categories in CATEGORIES.items():
        parts += ["", f"## {topic}"]
        for category in categories:
            here = [each for each in known if each.category == category]
            if here:
                parts += ["", f"### {category}", ""]
                parts += [
                    f"- [{each.id}]({each.id}.md): {_inert(story_of(each).partition(chr(10))[0])}"
                    for each in sorted(here, key=lambda each: each.id)
                ]
    return "\n".join(parts) + "\n"


def signature_page(signature: Signature) -> str:
    """Return the page of one signature."""
    parts = [
        f"# {signature.id}",
        "",
        f"Category `{signature.category}` · {signature.kind.value} · level `{signature.level}`",
        f"· {signature.confidence}",
        "",
        _inert(story_of(signature)),
    ]
    if signature.matches:
        lines = [f"    {line}" for line in "\n".join(signature.matches).splitlines()]
        parts += ["", "## Recognised by lines such as", "", *lines]
    if signature.misses:
        lines = [f"    {line}" for line in "\n".join(signature.misses).splitlines()]
        parts += ["", "## Not by", "", *lines]
    for title, texts in (("Do now", signature.remedies), ("To confirm", signature.next_steps)):
        if texts:
            parts += ["", f"## {title}", ""]
            parts += [f"- {_step(filled(text))}" for text in texts]
    if signature.links:
        parts += ["", "## See", "", *(f"- <{link}>" for link in signature.links)]
    return "\n".join(parts) + "\n"


def _help(name: str | None) -> str:
    whole = parser(*([name] if name else []))
    if name is None:
        return whole.format_help()
    (commands,) = (
        action for action in whole._actions if isinstance(action, argparse._SubParsersAction)
    )
    return str(commands.choices[name].format_help())


def _type(value: dict[str, Any]) -> str:
    """Name the type of a field as its JSON Schema does, records by their name."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in value:
        return " or ".join(_type(each) for each in value["anyOf"])
    if "enum" in value:
        return ", ".join(f"`{each}`" for each in value["enum"])
    if value.get("type") == "array":
        return f"list of {_type(value['items'])}" if "items" in value else "list"
    return str(value.get("type", "any"))


def _doc(function: Answers) -> str:
    return (inspect.getdoc(function) or "").replace("``", "`")


def _argument(of: Any) -> str:
    """Say what an argument of a query is: some words, or a plain value."""
    if get_origin(of) is tuple:
        return f"any of {_argument(get_args(of)[0])}"
    return ", ".join(f"`{word}`" for word in words_of(of)) or PLAIN.get(of, "a table")


def _step(text: str) -> str:
    return f"`{text}`" if is_command(text) else _inert(text)


def _inert(text: str) -> str:
    """Return text of which Markdown makes nothing but words."""
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]<>#|" else letter for letter in text)


def _fence(text: str, language: str = "text") -> str:
    return f"```{language}\n{textwrap.dedent(text).rstrip()}\n```"
