"""How a member has come to where it stands: by a branch on its rank's number, by no call at all."""

from collections.abc import Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Frame
from whyhang.analyzer.job.roles import main_thread
from whyhang.analyzer.rank_state.state import RankState
from whyhang.analyzer.stacks.blocks import rank_branch, unasked
from whyhang.analyzer.stacks.threads import source_lines
from whyhang.analyzer.stacks.usercode import in_words, short, user_path


def path_of(case: Case, state: RankState) -> list[Frame]:
    """Return the user's own frames of a rank's main thread, outermost first."""
    dumps = case.member(state.member).dumps
    thread = main_thread(dumps[-1]) if dumps and state.place is not None else None
    return user_path(thread.frames) if thread is not None else []


def branch_in_words(case: Case, members: Sequence[int]) -> str:
    """Return in which branch on its rank's number, or in whose call, the first member stands.

    Empty where nothing tells: most calls stand in the program.
    """
    text = source_lines(case.job.excerpts)
    path = path_of(case, case.states[members[0]])
    there = f"{case.names(members)} {'are' if len(members) > 1 else 'is'} there"
    words = []
    if head := rank_branch(path, text):
        condition = (text(head) or "").partition("  #")[0].strip().rstrip(":")
        words.append(f"{there} under `{condition}` ({short(head.file)}:{head.line})")
    if called := unasked(path, text):
        words.append(f"{there} in {called[1]}, {in_words(called[0])}, which runs at any line")
    return "; ".join(words)
