"""What a process is for its job, read off its stack when no process record says so."""

from whyhang.analyzer.facts import Frame, Role, StackDump
from whyhang.analyzer.facts.stacks import main_thread
from whyhang.analyzer.job.launchers import ROLES

_SPAWNER = "torch/multiprocessing/spawn.py"
_OF_CHILD = "_wrap"
"""Which of its functions a child runs in: all others there are of the parent."""


def role_of_dump(dump: StackDump) -> Role:
    """Return the role (worker, launcher or rank) by the files that the main thread is in."""
    thread = main_thread(dump)
    return role_of_frames(thread.frames if thread is not None else ())


def role_of_frames(frames: tuple[Frame, ...]) -> Role:
    """Return the role by one stack; a rank where no frame says otherwise."""
    for mark, role in ROLES.items():
        if any(frame.file.endswith(mark) for frame in frames):
            return role
    spawner = next((frame for frame in frames if frame.file.endswith(_SPAWNER)), None)
    return Role.RANK if spawner is None or spawner.function == _OF_CHILD else Role.LAUNCHER
