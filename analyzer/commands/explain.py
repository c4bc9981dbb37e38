"""Say what a signature means, how it is recognised and what to do.

Without a name, list all signatures by category.
"""

import argparse
import difflib
import sys
import textwrap

from whyhang.analyzer.cards.load import known
from whyhang.analyzer.commands.cards import add_card_folders, complain
from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import grouped
from whyhang.analyzer.findings.signature import Signature
from whyhang.analyzer.queries.waits.lagging_for import KERNEL_LOG, OUTPUT
from whyhang.analyzer.queries.waits.recorded import PLACES
from whyhang.analyzer.reports.finding import is_command
from whyhang.analyzer.wording.fill_texts import as_template

WIDTH = 100
PLACE = "its place in the code"  # what a field that names a place reads without a case


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the signature's name."""
    parser.add_argument("signature", nargs="?", help="id of a signature, or a category")
    add_card_folders(parser)


def run(options: argparse.Namespace) -> int:
    """Print one signature, those of one category, or the list."""
    knowledge = known(options.cards)
    signatures = knowledge.signatures
    complain(knowledge.gaps)
    if options.signature is None:
        sys.stdout.write(listing(signatures))
        return 0
    wanted = [s for s in signatures if options.signature in {s.id, s.category}]
    exact = [s for s in wanted if s.id == options.signature]
    if not wanted:
        raise _unknown(options.signature, signatures)
    sys.stdout.write("\n\n".join(story(s) for s in (exact or wanted)) + "\n")
    if exact and len(wanted) > 1:  # a category that is called as one of its signatures
        names = ", ".join(s.id for s in wanted if s not in exact)
        text = f"Other signatures of the category {options.signature}: {names}"
        sys.stdout.write(f"\n{textwrap.fill(text, WIDTH, break_on_hyphens=False)}\n")
    return 0


def _unknown(name: str, known: tuple[Signature, ...]) -> TargetError:
    names = sorted({s.id for s in known} | {s.category for s in known})
    near = [each for each in names if name and name.lower() in each]
    near += [each for each in difflib.get_close_matches(name, names, n=3) if each not in near]
    hint = f"Did you mean {', '.join(near[:5])}? " if near else ""
    return TargetError(
        f"there is no signature or category called {name!r}", f"{hint}`whyhang explain` lists all."
    )


def listing(known: tuple[Signature, ...]) -> str:
    """List all signatures by category, one line each."""
    lines = []
    for category, own in sorted(grouped(known, lambda s: s.category).items()):
        lines.append(category)
        for s in own:
            first = story_of(s).partition("\n")[0].rstrip(".")
            mark = "" if s.kind.value == "cause" else f" [{s.kind.value}]"
            yours = " [your card]" if s.origin else ""
            lines.append(f"  {s.id:<34} {first}{mark}{yours}")
    return "\n".join(lines) + "\n"


def story(signature: Signature) -> str:
    """Print one signature: its story, how it is recognised, what to do."""
    parts = [
        f"{signature.id}  ({signature.category}, {signature.kind.value})",
        *([f"from the card {signature.origin}"] if signature.origin else []),
        "",
        story_of(signature),
    ]
    if signature.matches:
        parts += ["", "Recognised by lines such as"]
        parts += [f"  {line}" for line in signature.matches]
    for title, texts in (
        ("Do now", signature.remedies),
        ("To confirm", signature.next_steps),
        ("See", (*signature.links, *((signature.runbook,) if signature.runbook else ()))),
    ):
        if texts:
            parts += ["", title]
            parts += [
                f"  - {t}" if title == "See" else _item(filled(t)) for t in texts if filled(t)
            ]
    return "\n".join(parts)


def _item(text: str) -> str:
    """Write an item of a list; what can be pasted into a shell stays on one line."""
    if is_command(text):
        return f"  $ {text}"
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent="  - ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def story_of(signature: Signature) -> str:
    """Return the story of a signature; for a card without one, its words, which hold fields."""
    if signature.story:
        return signature.story
    return filled(f"{signature.title}\n\n{signature.means}")


def filled(text: str) -> str:
    """Fill the places of a template with words that read well without a case."""
    return as_template(text, _WITHOUT_A_CASE)


_WITHOUT_A_CASE = {
    "who": "the rank",
    "others": "the other ranks",
    "absent": "the ranks that are missing",
    "where": PLACE,
    "look": f"Look at {PLACE}",
    "at": f" at {PLACE}",
    "call": "the call",
    "there": "the call of the others",
    "compare": PLACES,
    "trail": f"dmesg (oom-kill), {OUTPUT}",
    "kernel": KERNEL_LOG,
    "here": "one host",
    "to": " ADDRESS",
    "usual": "that of the others",
    "resolved": "ADDRESS",
    "leave": "the lines that leave it",
    "worker": "PID",
}
