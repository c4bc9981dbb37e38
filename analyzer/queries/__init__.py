"""Queries: what signatures may ask of the aligned job; functions of the case, without side effects.

One that answers with hits is registered where it stands (``registry``): signatures in TOML and
users' cards ask it by its name (``asked``), and ``docs/generate.py`` lists it. A relation reads the
case itself (``case.states``, ``case.graph``, ``case.job``); what relations have in common is here:
what ranks do, evidence with its source, words for a title (more of them in
``whyhang.analyzer.wording.describe``).
"""

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives import Verdict
from whyhang.analyzer.facts import ranks_in_words
from whyhang.analyzer.findings.signature import (
    CLEAR,
    GUESSED,
    INCOMPLETE,
    INDIRECT,
    Hit,
    Kind,
    Signature,
)
from whyhang.analyzer.queries.hits import (
    cite_environ,
    cite_line,
    cite_lines,
    hit_about,
    members_of,
    merge,
    merged,
    places_of,
)
from whyhang.analyzer.queries.logs.failures import failures, first_failures, left_others
from whyhang.analyzer.queries.logs.log import logged
from whyhang.analyzer.queries.machines.cluster import hosts_of_job, ranks_on
from whyhang.analyzer.queries.machines.connections import (
    cite_unanswered,
    leads_to,
    ranks_on_silent,
    silent_hosts,
)
from whyhang.analyzer.queries.machines.gpus import cite_gpu, gpu_names, hit_on
from whyhang.analyzer.queries.machines.networks import VIRTUAL, networks_of
from whyhang.analyzer.queries.startup.store_place import is_loopback
from whyhang.analyzer.queries.waits.different_operations import needs_everybody
from whyhang.analyzer.queries.waits.moving import left_behind, stragglers
from whyhang.analyzer.queries.waits.recorded import others_elsewhere, recorded, recorded_hit
from whyhang.analyzer.queries.waits.states import all_seen, has_initialized, waiters_for
from whyhang.analyzer.rank_state.over_time.motion import Moved
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.report import cite
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.wording.describe import (
    call_of,
    duration,
    evidence_of,
    location_of,
    path_of,
    quoted,
)
from whyhang.analyzer.wording.title_fields import subject_fields
