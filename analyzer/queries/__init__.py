"""Queries: what a signature over relations may ask of the aligned job.

A signature's ``when(case)`` reads the case itself (``case.states``, ``case.graph``,
``case.graph.calls``, ``case.job``) and asks these, all of them functions without side effects. What
several signatures need becomes a query; what one needs stands beside its words. A signature that
asks no more than a query with constants stands in TOML (``asked``).

Queries that answer with hits:

- ``lagging``: ranks that others wait for, held by something of their own
- ``absent``: ranks that should run and of which there is no process
- ``all_in_one_call``: everybody in one operation, and none comes back
- ``only_waiters``: whoever was seen waits, and others were not seen
- ``different_operations``, ``groups_crossed``: all wait, and not in the same operation or group
- ``needs_everybody``: whether nobody comes through an operation before all have come to it
- ``log_ends``: the log of a rank just ends, while others lost a peer
- ``resolves_differently``: the master's name leads elsewhere for some ranks
- ``ports_down``: network ports that are down; ``scheduled``: what the scheduler shows of the job
- ``raised``: the exception that ended a rank, the program or a thread
- ``awaited``: for whom ranks waited until a limit of their own, or that they did
- ``failed``: what failed in words that no signature knows, by its object
- ``settings_differ``: versions and settings that must be the same on all ranks
- ``printed_values_differ``: a line that all ranks print, with another value on one of them
- ``cut_off``: ranks that start and do not reach the store
- ``stragglers``: few ranks that hold up a job which goes on
- ``recorded``: what the ledger concluded from recorded calls, by its verdicts
- ``recorded_hit``: the same for one finding of the ledger
- ``logged``: log lines that match patterns, and whom they blame
- ``ras_reported``: what NCCL's health network says of ranks
- ``reported``, ``about``, ``listed``: what a person wrote of ranks, or of what the trouble is
  about; what ps shows of ranks
- ``quiet_logs``: logs that tell of nothing wrong;
  ``seen_at_work``: those that show steps
- ``ranks_not_waiting``, ``store_barrier``, ``horovod_stalls``, ``listed_tasks``: what lines of one
  kind tell together; they take the lines that the signature's patterns found
- ``file_locks``: ranks that wait for a lock on a file, by its holder
- ``nccl_start``, ``connections_not_made``: ranks that NCCL's set-up lacks, connections that lack
  an end; ``nccl_set_up``: whether a set-up was completed
- ``agents``, ``launch_plans``, ``scheduler_shows``: what starts the job, and what it lacks
- ``meeting_file``, ``port_held``, ``world_sizes``: the place where ranks meet, and how many
- ``gpus_show``, ``nvlinks``: what the load and state of GPUs show, and their links
- ``lagging_for``: lagging ranks of which it is known why
- ``counters_show``, ``own_lines_show``: ranks that count, or print, otherwise than others
- ``networks_show``: networks that may not join the ranks, or lose packets
- ``stacks_diverge``: ranks that wait, and whose stacks show that they cannot meet
- ``meeting_place``: ranks that do not get to where the others meet
- ``loop_left``: few ranks in a loop that others have left, or the other way round
- ``waits_for_absent``: calls that wait for ranks of which there is no record
- ``unpaired_by_stacks``: sends without receives, as stacks show them; ``face_to_face``: a send and
  a receive of the same two ranks that do not fit
- ``instead_of_waiting``: ranks that worked while others waited, or had left them
- ``faulty_gpus``: GPUs with a fault of their own
- ``stuck_in_setup``: all ranks in one phase of NCCL's set-up
- ``nccl_warned``, ``nccl_failed_in``: warnings in unknown words, and the reason of a failed call
- ``merged``: the answers of several queries; those about the same members become one, surer;
  ``merge``: two hits as one

Queries about ranks:

- ``waiters_for``: the members that wait for other ranks
- ``has_initialized``: a rank is through init_process_group
- ``left_behind``: who waits while others count on
- ``all_seen``: every member's place is known
- ``members_of``: members by rank, as far as there is evidence of them
- ``failures``, ``first_failures``, ``left_others``: ranks that ended by an error of their own
- ``others_elsewhere``: who waits elsewhere, where one rank alone is in a call of all
- ``hosts_of_job``, ``ranks_on``: the hosts of the job, and the ranks on some of them
- ``networks_of``: the networks of a port; ``VIRTUAL``: names of interfaces that end at their host;
  ``is_loopback``: an address that leads back to whoever asks

Evidence and words for a title (more of them in ``whyhang.analyzer.wording.describe``):

- ``cite``, ``cite_line``, ``cite_environ``, ``cite_gpu``: words with their source
- ``evidence_of``, ``location_of``: what places a rank, and where; ``path_of``: its own frames
  there; ``places_of``: the first of what places it, for each member; ``hit_about``: a hit about
  where members stand, in the usual words
- ``duration``: seconds in words
- ``subject_fields``: who, does, where, others, call, waiting
- ``hit_on``, ``gpu_names``: a hit about GPUs, and their names
- ``ranks_in_words``: "ranks 0-1,3"
"""

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives import Verdict
from whyhang.analyzer.facts import ranks_in_words
from whyhang.analyzer.findings.signature import Hit, Kind, Signature
from whyhang.analyzer.queries.hits import (
    cite_environ,
    cite_line,
    hit_about,
    members_of,
    merge,
    merged,
    places_of,
)
from whyhang.analyzer.queries.logs.accounts import about, listed, listed_tasks, reported
from whyhang.analyzer.queries.logs.exceptions import raised
from whyhang.analyzer.queries.logs.failures import failures, first_failures, left_others
from whyhang.analyzer.queries.logs.log import logged
from whyhang.analyzer.queries.logs.log_ends import log_ends, quiet_logs, seen_at_work
from whyhang.analyzer.queries.logs.nccl import (
    nccl_failed_in,
    nccl_set_up,
    nccl_warned,
    stuck_in_setup,
)
from whyhang.analyzer.queries.logs.nccl_start import connections_not_made, nccl_start
from whyhang.analyzer.queries.logs.own_lines import own_lines_show
from whyhang.analyzer.queries.logs.stall_reports import horovod_stalls, store_barrier
from whyhang.analyzer.queries.logs.what_failed import awaited, failed
from whyhang.analyzer.queries.machines.cluster import (
    VIRTUAL,
    hosts_of_job,
    networks_of,
    ports_down,
    ranks_on,
    scheduled,
)
from whyhang.analyzer.queries.machines.gpus import cite_gpu, faulty_gpus, gpu_names, hit_on, nvlinks
from whyhang.analyzer.queries.machines.gpus_show import gpus_show
from whyhang.analyzer.queries.machines.networks import networks_show
from whyhang.analyzer.queries.machines.scheduler import scheduler_shows
from whyhang.analyzer.queries.startup.agents import agents
from whyhang.analyzer.queries.startup.differing_settings import (
    printed_values_differ,
    settings_differ,
)
from whyhang.analyzer.queries.startup.launch_plans import launch_plans
from whyhang.analyzer.queries.startup.meeting_place import meeting_place
from whyhang.analyzer.queries.startup.meetings import meeting_file, port_held
from whyhang.analyzer.queries.startup.store_place import cut_off, is_loopback, resolves_differently
from whyhang.analyzer.queries.startup.world_sizes import world_sizes
from whyhang.analyzer.queries.waits.all_wait import all_in_one_call, only_waiters, stacks_diverge
from whyhang.analyzer.queries.waits.different_operations import (
    different_operations,
    needs_everybody,
)
from whyhang.analyzer.queries.waits.file_locks import file_locks
from whyhang.analyzer.queries.waits.lagging import absent, lagging
from whyhang.analyzer.queries.waits.lagging_for import lagging_for
from whyhang.analyzer.queries.waits.loop_left import loop_left
from whyhang.analyzer.queries.waits.moving import left_behind, stragglers
from whyhang.analyzer.queries.waits.named_groups import groups_crossed
from whyhang.analyzer.queries.waits.not_waiting import (
    instead_of_waiting,
    ranks_not_waiting,
    waits_for_absent,
)
from whyhang.analyzer.queries.waits.recorded import (
    others_elsewhere,
    ras_reported,
    recorded,
    recorded_hit,
)
from whyhang.analyzer.queries.waits.states import all_seen, has_initialized, waiters_for
from whyhang.analyzer.queries.waits.step_counts import counters_show
from whyhang.analyzer.queries.waits.unpaired import face_to_face, unpaired_by_stacks
from whyhang.analyzer.rank_state.over_time.motion import Moved
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.report import cite
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.wording.describe import evidence_of, location_of, path_of
from whyhang.analyzer.wording.title_fields import subject_fields
