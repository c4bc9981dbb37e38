"""The card that ``whyhang cards new`` prints: complete, with a word on each field."""

from __future__ import annotations

from whyhang.analyzer.report import CATEGORIES

_TEMPLATE = """\
# A card tells whyhang what a line in your jobs' logs means.
# Put it into {home}/cards/ and test it: whyhang cards check FILE

id = "acmefs-quota"                    # words of a-z and 0-9 joined by "-", unlike any other's
category = "storage-io-blocked"        # one of those listed at the end
role = "cause"                         # "cause", "consequence" of another's trouble, or "noise"

# The words of the report. {{path}} is what the group of that name found, {{who}} whom it is about
# ("rank 3"), {{times}} the number of lines. Write {{{{ and }}}} for braces.
title = "{{who}} ran out of quota on {{path}}"
explanation = '''
acmefs refuses to write to {{path}} because its project has used up its quota.
The rank stands in the write and tries for ever; the others wait for it.
'''

# Regular expressions, searched anywhere in a line: in single quotes, so that \\ needs no other.
# Groups named rank, ranks ("1, 2") and pid say whom the line is about; op, group and seq which
# collective. Give each pattern a plain word of some letters: it makes the search fast.
patterns = [
  'acmefs: quota exceeded on (?P<path>\\S+) by rank (?P<rank>\\d+)',
]
# unless = ['acmefs: quota raised']    # lines that take it back: then there is no finding
# blames = "named"                     # "named" in the line, its "speaker", or "nobody"
# confidence = 0.9                     # 0.9 and more is stated as a fact

remedies = ["Raise the quota of the project that owns {{path}}, or delete old checkpoints."]
next_steps = ["acmefs quota show {{path}}"]
# links = ["https://acmefs.example.org/quota"]
runbook_url = "https://wiki.example.org/runbooks/acmefs-quota"
# outranks = ["watchdog-timeout"]      # signatures that are effects of this one
# override = true                      # take the place of whyhang's own signature of this id

[examples]
must_match = ["acmefs: quota exceeded on /mnt/acme/run7 by rank 3"]
must_not_match = ["acmefs: quota at 91 % on /mnt/acme/run7"]

# Categories:
{categories}
"""


def template(home: str) -> str:
    """Give the text of a complete card; ``home`` is the user's configuration folder."""
    topics = "\n".join(f"#   {topic}: {_folded(names)}" for topic, names in CATEGORIES.items())
    return _TEMPLATE.format(home=home, categories=topics)


def _folded(names: tuple[str, ...]) -> str:
    lines, line = [], ""
    for name in names:
        if len(line) + len(name) > 70:
            lines.append(line.rstrip())
            line = ""
        line += f"{name}, "
    return "\n#     ".join([*lines, line.rstrip(", ")])
