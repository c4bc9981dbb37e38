"""Under which condition on the number of its rank a member has come to where it stands."""

from collections.abc import Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Frame
from whyhang.analyzer.job.roles import main_thread
from whyhang.analyzer.rank_state.state import RankState
from whyhang.analyzer.stacks.blocks import rank_branch
from whyhang.analyzer.stacks.threads import source_lines
from whyhang.analyzer.stacks.usercode import short, user_path


def path_of(case: Case, state: RankState) -> list[Frame]:
    """Return the user's own frames of a rank's main thread, outermost first."""
    dumps = case.member(state.member).dumps
    thread = main_thread(dumps[-1]) if dumps and state.place is not None else None
    return user_path(thread.frames) if thread is not None else []


def branch_in_words(case: Case, members: Sequence[int]) -> str:
    """Return in which branch on its rank's number the first member stands; empty if in none."""
    text = source_lines(case.job.excerpts)
    head = rank_branch(path_of(case, case.states[members[0]]), text)
    if head is None:
        return ""
    condition = (text(head) or "").partition("  #")[0].strip().rstrip(":")
    are = "are" if len(members) > 1 else "is"
    return f"{case.names(members)} {are} there under `{condition}` ({short(head.file)}:{head.line})"
