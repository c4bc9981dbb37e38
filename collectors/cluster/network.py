"""Networks: ports and interfaces of hosts, and their counters of errors.

As ibstat, ibstatus, ibv_devinfo, rdma, ip, ifconfig, ethtool, perfquery and sysfs print them.
"""

import itertools
import re
from collections.abc import Iterator

from whyhang.analyzer.facts import NOBODY, ErrorCounter, NetworkPort, Statement, replace
from whyhang.collectors import limits
from whyhang.collectors.prints import Lines, PrintedLine

MAX_BELOW = 64  # lines of one adapter or interface
_ADDRESS = r"(?:\d{1,3}(?:\.\d{1,3}){3}|(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4})"
_ADAPTER = limits.compile(
    r"(?:CA '(?P<name>[\w.-]+)'|Infiniband device '(?P<name>[\w.-]+)' port (?P<port>\d+) status:"
    r"|hca_id:\s*(?P<name>[\w.-]+))$"
)
_PORT = limits.compile(r"(?:Port (?P<port>\d+):|port:\s*(?P<port>\d+))$")
_STATE = limits.compile(r"(?P<phys>[Pp]hys(?:ical)? )?[Ss]tate: *(?:\d+: *)?(?P<state>\w+)")
_RDMA = limits.compile(
    r"(?:link |\d+/\d+: )(?P<name>[\w.-]+/\d+):? (?:subnet_prefix .*?)?state (?P<state>\w+)"
    r" physical_state (?P<phys>\w+)(?: netdev (?P<netdev>\S+))?"
)
_IP = limits.compile(
    r"\d+: (?P<name>[\w.@:-]+): <(?P<flags>[A-Z_,-]*)> mtu \d+.*? state (?P<state>[A-Z]+)"
    r"|(?P<name>[\w.-]+): flags=\d+<(?P<flags>[A-Z_,]*)>\s+mtu \d+"
)
_SETTINGS = limits.compile(r"Settings for (?P<name>[\w.-]+):$")
_DETECTED = limits.compile(r"Link detected: (?P<up>yes|no)")
_INET = limits.compile(rf"inet6? (?:addr:)?(?P<address>{_ADDRESS}(?:/\d+)?)")
_BRIEF = limits.compile(
    r"(?P<name>[a-z][\w.@-]*)\s+(?:(?P<state>UP|DOWN|UNKNOWN)\s+)?(?:<[^>]*> *)?"
    rf"(?P<addresses>(?:{_ADDRESS}/\d{{1,3}}(?:\s+metric \d+)?\s*)+)$"
)
_NIC = limits.compile(
    rf"\S+\s*: *(?P<name>[\w.-]+) *-> *(?P<netdev>[\w.-]+)\s+(?P<addresses>{_ADDRESS}/\d{{1,2}})\b"
)
_WRITTEN = limits.compile(
    r"(?P<name>[\w .-]{2,40}) \((?:IP|ip|inet) "
    r"(?P<net>\d{1,3}(?:\.\d{1,3}){2})\.[\dXx*]{1,3}(?P<len>/\d{1,2})\)"
)
_ASKED = limits.compile(r"(?:^|[$#] |&& )hostname -[iI](?:\s|$)")
_PLAIN = limits.compile(rf"(?:{_ADDRESS}(?:\s+|$))+$")

_OF_ERRORS = limits.compile(
    r"symbol_?err|err(?:or)?s?(?:counter|_phy|_frames)?$|link_?(?:error_?recovery|down)|integrity"
    r"|overrun|discards?|retrans|_nak|nak_|timeout_err|out_of_sequence|seq_err|out_of_buffer"
    r"|crc_|cqe_err|_dropped|duplicate_request",
    re.IGNORECASE,
)
_PERFQUERY = limits.compile(r"# Port (?:extended )?counters: (?P<port>Lid \d+ port \d+)")
_DOTTED = limits.compile(r"(?P<name>[A-Z]\w+):\.*(?P<value>\d{1,19})$")
_ETHTOOL_OF = limits.compile(r".*\bethtool -S (?P<port>[\w.-]+)")
_ETHTOOL = limits.compile(r"(?P<name>[a-z][\w. ]*?): (?P<value>\d{1,19})$")
_STATISTIC = limits.compile(r"link (?P<port>[\w.-]+/\d+) (?P<rest>(?:[a-z]\w* \d{1,19} ?)+)$")
_SYSFS = limits.compile(
    r"(?:\S*/)?(?P<name>\w+)/ports/(?P<port>\d+)/(?:hw_)?counters/(?P<counter>\w+):(?P<value>\d{1,19})$"
)


def adapter(lines: Lines) -> Iterator[Statement]:
    """Read an RDMA adapter with its ports: ibstat, ibstatus, ibv_devinfo."""
    head = _ADAPTER.match(lines.next.words)
    if head is None:
        return
    name, port = head["name"], head["port"]
    lines.take()
    ports: dict[str, dict[str, PrintedLine]] = {}
    for count, line in enumerate(lines):
        if count >= MAX_BELOW or _ADAPTER.match(line.words):
            break
        if number := _PORT.match(line.words):
            port = number["port"]
        elif (state := _STATE.match(line.words)) and port is not None:
            ports.setdefault(port, {})["phys" if state["phys"] else "state"] = line
    for key, states in ports.items():
        first = states.get("state") or states["phys"]
        words = [m["state"] for one in states.values() if (m := _STATE.match(one.words))]
        quote = f"{name}/{key}: {', '.join(one.words for one in states.values())}"
        yield _network_port(replace(first, text=quote), f"{name}/{key}", "/".join(words))


def interface(lines: Lines) -> Iterator[Statement]:
    """Read a line of rdma link, or an interface of ip, ifconfig or ethtool with what is below."""
    line = lines.next
    if match := _RDMA.match(line.words):
        state = f"{match['state']}/{match['phys']}"
        yield _network_port(lines.take(), match["name"], state, netdev=match["netdev"])
    elif match := _IP.match(line.words):
        lines.take()
        below = itertools.takewhile(lambda one: one.text.startswith((" ", "\t")), lines)
        inets = (_INET.match(one.words) for one in below)
        flags = match["flags"].split(",")
        state = "DOWN" if "NO-CARRIER" in flags or "UP" not in flags else match["state"] or "UP"
        yield _network_port(
            line,
            match["name"].partition("@")[0],
            state.replace("UNKNOWN", "UP"),  # of devices that do not tell, as loopback
            addresses=tuple(inet["address"] for inet in inets if inet),
        )
    elif match := _SETTINGS.match(line.words):
        lines.take()
        for one in itertools.takewhile(lambda one: not _SETTINGS.match(one.words), lines):
            if link := _DETECTED.match(one.words):
                state = "UP" if link["up"] == "yes" else "DOWN"
                yield _network_port(lines.take(), match["name"], state)
                return


def _network_port(
    line: PrintedLine,
    name: str,
    state: str,
    *,
    netdev: str | None = None,
    addresses: tuple[str, ...] = (),
) -> NetworkPort:
    link = state.partition("/")[0].upper().removeprefix("PORT_")
    return NetworkPort(
        who=NOBODY,
        source=line.source,
        name=name,
        quote=line.words,
        up=link in {"ACTIVE", "UP", "LINKUP"} if state else None,
        state=state,
        netdev=netdev,
        addresses=addresses,
    )


def addresses(lines: Lines) -> Iterator[Statement]:
    """Read a line of ``ip -br``, of a table of interfaces, or what follows ``hostname -I``."""
    line = lines.next
    if match := _BRIEF.match(line.words):
        state = (match["state"] or "").replace("UNKNOWN", "UP")
        networks = tuple(word for word in match["addresses"].split() if "/" in word)
        name = match["name"].partition("@")[0]
        yield _network_port(lines.take(), name, state, addresses=networks)
    elif match := _NIC.match(line.words):
        name, netdev, networks = match["name"], match["netdev"], (match["addresses"],)
        yield _network_port(lines.take(), name, "", netdev=netdev, addresses=networks)
    elif match := _WRITTEN.search(line.words):  # as people write of their networks
        network = ".".join(part.lstrip("0") or "0" for part in match["net"].split("."))
        networks = (f"{network}.0{match['len']}",)
        yield _network_port(lines.take(), match["name"].strip(), "", addresses=networks)
    elif _ASKED.search(line.words) and _PLAIN.match(lines.behind.words):
        lines.take()
        below = lines.take()
        yield _network_port(below, "", "", addresses=tuple(below.words.split()))


def counters(lines: Lines) -> Iterator[Statement]:
    """Read one print of counters; all errors of it, those at zero as well."""
    line = lines.next
    if match := _PERFQUERY.match(line.words):
        port, rows = match["port"], _counters_below(lines, _DOTTED)
    elif line.words == "NIC statistics:":
        asked = _ETHTOOL_OF.match(lines.above.words)
        port, rows = asked["port"] if asked else None, _counters_below(lines, _ETHTOOL)
    elif match := _STATISTIC.match(line.words):
        words = match["rest"].split()
        lines.take()
        pairs = zip(words[::2], words[1::2], strict=True)  # its pattern has them in pairs
        port, rows = match["port"], [(line, *pair) for pair in pairs]
    elif (match := _SYSFS.match(line.words)) and _OF_ERRORS.search(match["counter"]):
        lines.take()
        port, rows = f"{match['name']}/{match['port']}", [(line, match["counter"], match["value"])]
    else:
        return
    for one, name, value in rows:
        if _OF_ERRORS.search(name):
            source, number = one.source, int(value)
            yield ErrorCounter(
                who=NOBODY, source=source, port=port, name=name.strip(), value=number
            )


def _counters_below(lines: Lines, shape: limits.Pattern[str]) -> list[tuple[PrintedLine, str, str]]:
    return lines.below(
        lambda line: (m := shape.match(line.words)) and (line, m["name"], m["value"])
    )
