"""A flight recorder dump asks to run code when it is unpickled.

A dump is a pickle, and a pickle may name functions that are called while it is read. torch's
recorder writes plain data only, so a dump that names one was not written by it, or was changed
since. whyhang does not unpickle: it refused the file and read the others. Tools that use
pickle, torchfrtrace among them, would run what it asks for.
"""

from whyhang.analyzer.match import Kind, Signature, asks_for_code

SIGNATURE = Signature(
    id="unsafe-recorder-dump",
    category="unknown",
    kind=Kind.CAUSE,
    level="wait",
    title="A recorder dump of {who} asks to run code when it is read ({values}) and was refused",
    when=asks_for_code(),
    means=(
        "{files} asks for {values} when it is unpickled. No recorder of torch writes that. "
        "Nothing of it was run, and where {who} stands is not known from it. It is no reason "
        "for a hang by itself."
    ),
    confidence="hint",
    remedies=(
        "Do not open this file with pickle or torchfrtrace.",
        "Find out who wrote it: the owner and the time of {files}.",
    ),
    next_steps=("ls -l --time-style=full-iso {files}",),
)
