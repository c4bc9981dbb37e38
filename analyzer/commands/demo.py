"""Start a small job that really hangs, and diagnose it.

Without a name, list the samples. A live sample needs torch and starts real processes on
this machine (it says which before), all of which end with the demo. --recorded reads the
bundle that was captured from the same job: no torch, nothing is started.
"""

import argparse
import shlex
import sys

from whyhang.analyzer.commands import live_options, output
from whyhang.analyzer.commands.diagnose import report_on
from whyhang.analyzer.errors import TargetError
from whyhang.samples.harness import scenario
from whyhang.samples.harness.scenario import Sample


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sample and how to take snapshots."""
    parser.add_argument("sample", nargs="?", help="name of a sample")
    parser.add_argument(
        "--recorded", action="store_true", help="read the recording instead of starting a job"
    )
    output.add_arguments(parser)
    live_options.add_arguments(parser, hosts=False)
    elsewhere = argparse.ArgumentParser(add_help=False)
    live_options.add_host_arguments(elsewhere)  # a sample runs on this host
    parser.set_defaults(**vars(elsewhere.parse_args([])))


def run(options: argparse.Namespace) -> int:
    """List, replay or start."""
    output.check(options)
    known = scenario.samples()
    if options.sample is None:
        sys.stdout.write(listing(known))
        return 0
    if options.sample not in known:
        raise TargetError(
            f"there is no sample called {options.sample}", "`whyhang demo` lists them."
        )
    sample = known[options.sample]
    if options.recorded and not sample.bundle.is_file():
        raise TargetError(f"{sample.name} has no recording", "Start it without --recorded.")
    if options.recorded:
        report, _ = report_on([], [str(sample.bundle)], options)
        return output.emit(report, options)
    return _start(sample, options)


def listing(known: dict[str, Sample]) -> str:
    """List the samples with one sentence each."""
    width = max((len(name) for name in known), default=0)
    lines = [f"  {name:<{width}}  {sample.title}" for name, sample in sorted(known.items())]
    return "\n".join(
        ["Jobs that hang; `whyhang demo NAME` starts one and diagnoses it:", "", *lines, ""]
    )


def _start(sample: Sample, options: argparse.Namespace) -> int:
    lack = scenario.missing(sample)
    if lack is not None:
        raise lack
    command = scenario.command_line(sample)
    _say(f"{sample.title}\nstarting: {shlex.join(command)}\n")
    with scenario.start(sample, command) as job:
        _say(f"waiting until its {sample.ranks} ranks hang …\n")
        job.wait_ready()
        _say(f"it hangs; now: whyhang {job.pid}\n\n")
        report, _ = report_on([job.pid], [], options)
    return output.emit(report, options)


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
