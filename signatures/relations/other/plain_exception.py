"""The program ended with an exception that has nothing to do with ranks.

Every rank raised the same, or there is only one process: a missing file, a wrong argument, a
bug. Nobody waited for anybody.
"""

from whyhang.analyzer.match import Kind, Signature, raised

SIGNATURE = Signature(
    id="plain-exception",
    category="not-distributed",
    kind=Kind.CAUSE,
    level="program",
    title="The program ended with {what}{at}",
    when=raised(everywhere=True),
    means="This is an ordinary error of the program, the same on every rank that was seen.",
    confidence="likely",
    remedies=("Fix the exception; no rank is to blame.",),
    next_steps=("Run the script on one process: does it fail alike?",),
    gives_way=True,
)
