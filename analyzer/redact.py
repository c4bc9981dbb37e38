"""What may leave a process: environment values by allow-list, secrets in text by pattern.

A report may be pasted into an incident and a bundle sent to a vendor, so nothing is kept by
default. Of the environment, only the variables listed here go on: where a rank stands in
its job, and the settings of torch, NCCL, Gloo, CUDA and the launcher. In command lines,
source excerpts and the output of tools, values are blanked that look like

* the value of an option, variable or field with a telling name: ``--token=…``,
  ``--api-key …``, ``AWS_SECRET_ACCESS_KEY=…``, ``"password": "…"``, ``password=… host=db``;
* a password inside a URL: ``https://user:…@host``;
* an ``Authorization`` header, a bearer token, ``-u user:…``, the key of a storage account, the
  signature of a signed URL, the last literal of ``login("…", "…")``;
* a token by its form: Hugging Face ``hf_…``, AWS ``AKIA…``, GitHub ``ghp_…``, GitLab
  ``glpat-…``, OpenAI and Anthropic ``sk-…``, Slack ``xox…`` and its webhooks, Google ``AIza…``,
  Stripe ``sk_live_…``, npm ``npm_…``, ``pypi-…``, SendGrid ``SG.…``, bots of Telegram, JSON
  web tokens, private keys in PEM, and the 40 hexadecimal digits of a Weights & Biases key where
  the text around it speaks of wandb or a key. A test holds these against the plugins of
  detect-secrets, which is kept by others and knows further services.

What has no recognisable form is not found: a secret that is a bare word in a positional
argument stays. Nothing else is altered, so that quotes from evidence stay verbatim.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from whyhang.analyzer.facts import Record

BLANK = "[redacted]"

_NAMES = """
    RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_NAME
    ROLE_WORLD_SIZE NODE_RANK NNODES CROSS_RANK CROSS_SIZE MASTER_ADDR MASTER_PORT
    XDG_CACHE_HOME
    CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES
    SLURM_JOB_ID SLURM_JOBID SLURM_STEP_ID SLURM_STEPID SLURM_PROCID SLURM_LOCALID SLURM_NODEID
    SLURM_NTASKS SLURM_NPROCS SLURM_NNODES SLURM_JOB_NUM_NODES SLURM_NODELIST SLURM_JOB_NODELIST
    SLURM_STEP_NODELIST SLURM_STEP_NUM_TASKS SLURM_STEP_NUM_NODES SLURM_TASKS_PER_NODE
    SLURM_STEP_TASKS_PER_NODE SLURM_GTIDS SLURM_NTASKS_PER_NODE SLURM_CPUS_PER_TASK
    SLURM_GPUS_ON_NODE SLURM_STEP_GPUS SLURM_RESTART_COUNT SLURMD_NODENAME SLURM_HET_SIZE
    SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID
    OMPI_MCA_ess_base_jobid OMPI_MCA_ess_base_vpid OMPI_UNIVERSE_SIZE
    PMIX_RANK PMIX_NAMESPACE PMI_RANK PMI_SIZE PMI_LOCAL_RANK PMI_LOCAL_SIZE MPI_LOCALRANKID
    MPI_LOCALNRANKS MV2_COMM_WORLD_RANK MV2_COMM_WORLD_SIZE MV2_COMM_WORLD_LOCAL_RANK
    PALS_RANKID PALS_LOCAL_RANKID PALS_APID
    RAY_JOB_ID RAY_NODE_ID
"""
ENVIRONMENT_NAMES = frozenset(_NAMES.split())
"""Variables that are kept under exactly this name."""

ENVIRONMENT_PREFIXES = (
    "TORCHELASTIC_",
    "TORCH_",
    "PYTORCH_",
    "NCCL_",
    "RCCL_",
    "GLOO_",
    "CUDA_",
    "OMP_",
    "KMP_",
    "PET_",  # torchrun's own options as Kubernetes operators set them
    "OMPI_COMM_WORLD_",
    "FI_",
    "UCX_",
    "ACCELERATE_",
)
"""Families of variables that are kept."""

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|CREDENTIAL|APIKEY|API_KEY|ACCESS_KEY|PRIVATE_KEY|AUTH", re.IGNORECASE
)


def allowed(name: str) -> bool:
    """Return whether the value of this environment variable may be kept."""
    listed = name in ENVIRONMENT_NAMES or name.startswith(ENVIRONMENT_PREFIXES)
    return listed and _SECRET_NAME.search(name) is None


def redact_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Keep what the allow-list names, in the order of names, without secrets in the values."""
    return {name: redact(environ[name]) for name in sorted(environ) if allowed(name)}


class _Pattern(Record):
    """One form of secret: the group ``secret`` is blanked, the rest stays.

    ``marks`` are lower-case texts of which one must be there; they are looked for first,
    because a plain search is many times faster than the expression.
    """

    marks: tuple[str, ...]
    regex: re.Pattern[str]


# Words that make the name of an option or field telling. "token" alone is one, the tokens of
# a language model ("--pad-token", "max_tokens", "tokenizer") are none.
_WORD = (
    r"(?:api[-_]?key|access[-_]?key|private[-_]?key|secret[-_]?key|wandb[-_]?key|secret"
    r"|passw(?:or)?d|passphrase|credentials?"
    r"|(?<!pad[-_])(?<!eos[-_])(?<!bos[-_])(?<!unk[-_])(?<!sep[-_])(?<!cls[-_])(?<!mask[-_])"
    r"(?<!image[-_])(?<!special[-_])token)"
)
_PARTS = r"(?:[a-z0-9]{1,40}[-_.]){0,8}"  # bounded, so that no text makes the search slow
_NAME = rf"_?{_PARTS}{_WORD}"
_NAME_MARKS = ("key", "secret", "passw", "passphrase", "credential", "token")
_BARE = r"[^\s\"',;&()\[\]{}]+"


def _pattern(marks: tuple[str, ...], text: str, flags: int = re.IGNORECASE) -> _Pattern:
    return _Pattern(marks=marks, regex=re.compile(text, flags))


_GITLAB = ("glpat", "gldt", "glft", "glsoat", "glrt", "glcbt", "glimt", "glptt", "glagent", "gloas")


def _token(marks: tuple[str, ...], form: str, flags: int = re.IGNORECASE) -> _Pattern:
    """Return the pattern of a token that is known by its form, in a word of its own or not."""
    return _pattern(marks, rf"(?<![A-Za-z0-9])(?P<secret>{form})", flags)


PATTERNS: tuple[_Pattern, ...] = (
    # --token=x  --api-key x  --password 'a b'
    _pattern(
        _NAME_MARKS,
        rf"(?<![\w-])--?{_PARTS}{_WORD}(?:=|\s+)"
        rf"(?P<quote>[\"']?)(?P<secret>(?<=[\"'])[^\"'\n]+|(?!-){_BARE})",
    ),
    # AWS_SECRET_ACCESS_KEY=x, in capitals as variables are
    _pattern(
        _NAME_MARKS,
        r"\b[A-Z0-9_]*(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?)"
        rf"(?:_ID)?=(?P<quote>[\"']?)(?P<secret>(?<=[\"'])[^\"'\n]+|{_BARE})",
        0,
    ),
    # "password": "x"   api_key = 'x'   {\\"token\\": \\"x\\"}: literals
    _pattern(
        _NAME_MARKS,
        rf"(?<![\w-]){_NAME}\\{{0,3}}[\"']?\]?\s*(?::\s*str\s*=|[:=])\s*[a-z]?"
        r"(?P<quote>\\{0,3}[\"'])(?P<secret>(?:[^\"'\n\\]|\\(?![\"']))+)",
    ),
    # password=x host=db   ?access_token=x&…: not what is called or handed on in source code
    _pattern(
        _NAME_MARKS,
        rf"(?<![\w-]){_NAME}=(?P<secret>(?!(?:\d{{1,9}}|none|null|true|false)(?![^\s&;])){_BARE})"
        r"(?=[\s&;\"']|\Z)",
    ),
    # hf_token: x   api_key: x   in YAML
    _pattern(
        ("key:", "token:"),
        rf"(?<![\w-])(?:{_PARTS}(?:api|access|secret|private)[-_]?key|(?:[a-z0-9]{{1,40}}[-_.]){{1,8}}{_WORD})"
        r":[ \t]+(?P<secret>[\w.~+/=-]{8,})[ \t]*(?:\n|\Z)",
    ),
    # password: x   in YAML and in messages
    _pattern(
        ("passw", "secret"),
        rf"(?<![\w-]){_PARTS}(?:passw(?:or)?d|secret):[ \t]+"
        rf"(?P<secret>(?!None\b|str\b){_BARE})[ \t]*$",
        re.IGNORECASE | re.MULTILINE,
    ),
    # a literal of several lines behind the name
    _pattern(
        _NAME_MARKS,
        rf"(?<![\w-]){_NAME}\s*=\s*[a-z]?(?P<quote>\"{{3}}|'{{3}})(?P<secret>.+?)(?:(?P=quote)|\Z)",
        re.IGNORECASE | re.DOTALL,
    ),
    # login("svc", "x")   a call whose name says that it takes a secret, its last literal
    _pattern(
        ("login(", "authenticate(", "sign_in(", "_auth("),
        r"\b(?:login|authenticate|sign_in|\w+_auth)\([^()\n]*?"
        r"(?P<quote>[\"'])(?P<secret>[^\"'\n]+)(?P=quote)\s*\)",
    ),
    # curl -u user:x   --user user:x
    _pattern((" -u", "--user"), r"(?<![\w-])(?:-u|--user)[ =][\"']?[\w.@-]+:(?P<secret>[^\s\"']+)"),
    # the key of an Azure account
    _pattern(
        ("accountkey", "sharedaccesskey"),
        r"\b(?:account|sharedaccess)key=(?P<secret>[a-z0-9+/=%]{8,})",
    ),
    # ?sig=x   &X-Amz-Signature=x   in a signed URL
    _pattern(
        ("sig=", "signature=", "x-amz-security-token="),
        r"[?&](?:sig|(?:x-(?:amz|goog)-)?signature|x-amz-security-token)=(?P<secret>[\w%+/=.~-]{8,})",
    ),
    # https://user:x@host
    _pattern(("://",), r"\b[a-z][a-z0-9+.-]*://[^\s/@:\"']*:(?P<secret>[^\s/@\"']+)@"),
    # Authorization: Bearer x
    _pattern(
        ("authorization", "bearer"),
        r"(?:\bauthorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token)\s+)?|\bbearer\s+)"
        r"(?P<secret>(?!\{)[\w.~+/=-]{8,})",
    ),
    _token(("hf_",), r"hf_[a-z0-9]{20,}"),
    _token(
        ("akia", "asia", "abia", "acca", "a3t"),
        r"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[0-9A-Z]{16}(?!\w)",
        0,
    ),
    _pattern(
        ("aws",),
        r"aws.{0,20}?(?:key|pwd|pw|password|pass|token).{0,20}?[\"'](?P<secret>[0-9a-z/+]{40})[\"']",
    ),
    _token(("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[a-z0-9]{20,}"),
    _token(("github_pat_",), r"github_pat_\w{20,}"),
    _token(tuple(f"{kind}-" for kind in _GITLAB), rf"(?:{'|'.join(_GITLAB)})-[\w-]{{16,}}"),
    _token(("gr1348941",), r"GR1348941[\w-]{20,}"),
    _pattern(("sk-",), r"(?<![\w-])(?P<secret>sk-[\w-]{20,})"),
    _token(("xox",), r"xox[abeprs]-[\w-]{10,}"),
    _token(("aiza",), r"AIza[\w-]{35}", 0),
    _token(("eyj",), r"eyJ[\w-]{10,}\.[\w-]{10,}(?:\.[\w-]*)?", 0),
    _pattern(("wandb",), r"wandb[^\n]{0,60}?\b(?P<secret>[0-9a-f]{40})\b"),
    _token(("k_live_", "k_test_"), r"[rs]k_(?:live|test)_[0-9a-z]{16,}"),
    _token(("npm_",), r"npm_[a-z0-9]{30,}"),
    _pattern(("_authtoken=",), r":_authToken=\s*(?P<secret>[\w-]{20,})"),
    _token(("pypi-",), r"pypi-[\w-]{40,}"),
    _token(("sg.",), r"SG\.[\w-]{16,}\.[\w-]{16,}", 0),
    _pattern(("hooks.",), r"hooks\.slack\.com/(?:services|workflows)/(?P<secret>[\w/]{12,})"),
    _pattern((":aa",), r"(?<!\d)(?P<secret>\d{8,10}:AA[\w-]{33})"),
    _token(("wandb_v1_",), r"wandb_v1_\w{20,}"),
    _token(("-us",), r"[0-9a-f]{32}-us\d{1,2}(?!\w)"),
    _token(("sq0",), r"sq0(?:csp|atp)-[\w\\-]{22,}"),
    _token(("akc",), r"AKC[a-zA-Z0-9]{10,}", 0),
    _token(("sk", "ac"), r"(?:SK|AC)[0-9a-f]{32}(?!\w)", 0),
    _token((".",), r"[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,}", 0),
    _pattern(("softlayer.com/",), r"softlayer\.com/soap/v3(?:\.1)?/(?P<secret>[a-z0-9]{64})"),
    _pattern(
        ("private key",),
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?P<secret>.+?)(?:-----END|\Z)",
        re.DOTALL,
    ),
    _pattern(
        ("private-lines:",),
        r"Private-Lines: \d+\n(?P<secret>.+?)(?:Private-MAC|\Z)",
        re.DOTALL,
    ),
)
"""What is looked for, in this order."""

_MARKS = tuple(dict.fromkeys(mark for pattern in PATTERNS for mark in pattern.marks))


def redact(text: str) -> str:
    """Blank what looks like a secret; everything else stays as it is."""
    lower = text.lower()
    marks = {mark for mark in _MARKS if mark in lower}
    if not marks:
        return text
    for pattern in PATTERNS:
        if not marks.isdisjoint(pattern.marks):
            text = pattern.regex.sub(_blank, text)
    return text


def _blank(match: re.Match[str]) -> str:
    start, end = match.span("secret")
    whole = match.group()
    return whole[: start - match.start()] + BLANK + whole[end - match.start() :]


def redact_texts(value: Any, change: Callable[[str], str] = redact) -> Any:
    """Do the same to each text in plain data: lists, tables, what stands in them."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [redact_texts(each, change) for each in value]
    if isinstance(value, dict):
        return {key: redact_texts(each, change) for key, each in value.items()}
    return value


def redact_bytes(data: bytes) -> bytes:
    """Do the same to the output of a tool; bytes that are no UTF-8 survive unchanged."""
    text = data.decode("utf-8", "surrogateescape")
    clean = redact(text)
    return data if clean is text else clean.encode("utf-8", "surrogateescape")


def redact_command(arguments: Sequence[str], limit: int = 2000) -> str:
    """Join a command line as a shell would take it, without secrets, cut to a sane length."""
    clean = redact(shlex.join(arguments))
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
