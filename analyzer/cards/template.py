"""The card that ``whyhang cards new`` prints: complete, with a word on each field."""

from __future__ import annotations

from whyhang.analyzer.report import CATEGORIES

_TEMPLATE = """\
# A card tells whyhang what a line in your jobs' logs means.
# Put it into {home}/cards/ and test it: whyhang cards check FILE
# A file may hold several: begin each with [[signature]], its examples with [signature.examples].

id = "acmefs-quota"                    # words of a-z and 0-9 joined by "-", unlike any other's
category = "storage-io-blocked"        # one of those listed at the end
role = "cause"                         # "cause", "consequence" of another's trouble, or "noise"

# How deep it goes: of findings about the same ranks the deeper explains the others. Deepest first:
# "machine" (a fault of it), "kill" (a process was ended or stopped), "setup" (what was configured),
# "program" (its error or block), "peer" (an echo of another rank's trouble), "wait" (in vain),
# "summary" (of a launcher), "fallback" (said only if nothing else is). Without it: by category.
# level = "program"

# The words of the report. {{path}} is what the group of that name found, {{who}} whom it is about
# ("rank 3"), {{times}} the number of lines. Write {{{{ and }}}} for braces.
title = "{{who}} ran out of quota on {{path}}"
explanation = '''
acmefs refuses to write to {{path}} because its project has used up its quota.
The rank stands in the write and tries for ever; the others wait for it.
'''
# story = "..."                        # for `whyhang explain`, if title and explanation will not do

# Regular expressions, searched anywhere in a line: in single quotes, so that \\ needs no other.
# Groups named rank, ranks ("1, 2") and pid say whom the line is about; op, group and seq which
# collective. Give each pattern a plain word of some letters: it makes the search fast.
patterns = [
  'acmefs: quota exceeded on (?P<path>\\S+) by rank (?P<rank>\\d+)',
]
# asks = [{{ query = "lagging", kinds = ["lock"] }}]    # what ranks do, beside lines or without
# unless_asks = [{{ query = "absent", starting = true }}]    # an answer to it takes it back
# unless = ['acmefs: quota raised']    # lines that take it back: then there is no finding
# unless_same_rank = true              # such a line takes back only what its own rank says
# least_ranks = 2                      # so many ranks must say it
# ends_process = true                  # who says it ends by it

# Who is to blame: whom the line names ("named"), the rank that says it ("speaker"), the ranks on
# the host that the group "node" names ("host"), the one rank whose end the lines report ("ended"),
# rank 0 ("zero"; "root" if several ranks fail at one address), or nobody that it tells of.
# blames = "named"
# category_if_everywhere = "not-distributed"    # its category where all ranks say it
# confidence = "strong"                # or "certain", "likely", "possible", "hint"

remedies = ["Raise the quota of the project that owns {{path}}, or delete old checkpoints."]
next_steps = ["acmefs quota show {{path}}"]
# links = ["https://acmefs.example.org/quota"]
runbook_url = "https://wiki.example.org/runbooks/acmefs-quota"
# explains = ["watchdog-timeout"]      # signatures that are effects of this one at any level
# restarts = true                      # such lines stand between two attempts of the job
# override = true                      # take the place of whyhang's own signature of this id

[examples]
must_match = ["acmefs: quota exceeded on /mnt/acme/run7 by rank 3"]
must_not_match = ["acmefs: quota at 91 % on /mnt/acme/run7"]

# Words for values of a group: with a group "code" of value 7, {{meaning}} is "no space left".
# [adds.code]
# 7 = {{ meaning = "no space left" }}

# Categories:
{categories}
"""


def template(home: str) -> str:
    """Return the text of a complete card; ``home`` is the user's configuration folder."""
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
