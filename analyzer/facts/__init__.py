"""Facts: what a collector can say about one rank, with where it was read.

Every record is frozen and carries its provenance. Collectors yield these and nothing else; the
analysis consumes these and nothing else. ``None`` always means "not known", never "none" or
zero. Ranks are global ranks, times are seconds since the epoch (UTC), frames are innermost
first, unless a field says otherwise. Everything is imported from here; the first line of each
file says which facts it has.
"""

from typing import TypeAlias

from whyhang.analyzer.facts.base import (
    MAX_RANKS,
    NOBODY,
    Excerpt,
    Gap,
    Record,
    Source,
    Trust,
    Who,
    counted,
    few,
    fold,
    grouped,
    listed,
    ranks_in_words,
    replace,
    same_host,
    short_host,
    spaced,
    unfold,
    whole,
)
from whyhang.analyzer.facts.calls import Call, CallState, Group, GroupConnections, Track
from whyhang.analyzer.facts.cluster import (
    Capacity,
    ErrorCounter,
    LaunchPlan,
    NetworkPort,
    OpenPort,
    ProcessState,
    Scheduled,
)
from whyhang.analyzer.facts.gpus import Gpu, GpuProcess, GpuSlice, NvLink
from whyhang.analyzer.facts.live import (
    CallArgument,
    DriverSilence,
    HostAddress,
    HostSilence,
    LoopCounter,
    NearLimit,
    NoInterpreter,
    PartOfHost,
    Paused,
    Variables,
)
from whyhang.analyzer.facts.logs import CRASHES, NAMES_WHOM, NO_YEAR, RAS_LINE, Exit, LogLine
from whyhang.analyzer.facts.processes import (
    NO_LIMIT,
    SHARED_FUTEX,
    SWITCHES_PER_PAUSE,
    Counters,
    LockWait,
    OtherEnd,
    Process,
    Role,
    ThreadState,
    program,
)
from whyhang.analyzer.facts.progress import (
    LastLine,
    LogTail,
    Outlook,
    OwnLine,
    Progressed,
    SignOfLife,
    StepsWritten,
    StepsWrittenBefore,
    TrainingOutput,
)
from whyhang.analyzer.facts.rendezvous import Agent, FileView, Listener, StoreView
from whyhang.analyzer.facts.stacks import Frame, StackDump, Thread
from whyhang.analyzer.facts.statements import (
    Account,
    Address,
    ClockOffset,
    CommunicatorSize,
    Deed,
    GpuAddress,
    GroupSize,
    InitArguments,
    Library,
    NcclDevice,
    NcclPhase,
    NcclSetup,
    NetChannel,
    OwnAddress,
    PrintedValue,
    ProcessRank,
    RasReport,
    RootArgument,
    RootCause,
    S,
    Setting,
    SettingName,
    Speaker,
    StartedAgain,
    Statement,
    Subject,
    Topic,
    Trouble,
    UnsafeDump,
    Variable,
    WorldSize,
)

Fact: TypeAlias = (
    StackDump
    | Process
    | Track
    | Group
    | LogLine
    | Exit
    | Statement
    | Excerpt
    | Gap
    | StoreView
    | FileView
    | Agent
    | Gpu
)
"""What a collector yields."""
