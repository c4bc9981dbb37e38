"""What leaves a host: nothing of the environment but the allow-list, no secret in any text."""

from __future__ import annotations

import time

import pytest

from whyhang.analyzer.redact import (
    BLANK,
    allowed,
    redact,
    redact_bytes,
    redact_command,
    redact_environment,
)

HEX40 = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("python train.py --token=abcdef --lr 1", "abcdef"),
        ("python train.py --hf-token abcdef --lr 1", "abcdef"),
        ("python train.py --wandb_api_key s3cr3t --lr 1", "s3cr3t"),
        ("python train.py --password 'two words' --lr 1", "two words"),
        ("env AWS_SECRET_ACCESS_KEY=AbC/dEf+1 HF_TOKEN=xyz python t.py", "AbC/dEf+1"),
        ("env AWS_SECRET_ACCESS_KEY=AbC/dEf+1 HF_TOKEN=xyz python t.py", "xyz"),
        ('{"password": "hunter2", "lr": 1}', "hunter2"),
        ("api_key = 'hunter2'", "hunter2"),
        ('os.environ["WANDB_API_KEY"] = "hunter2"', "hunter2"),
        ('    API_KEY: str = f"hunter2"', "hunter2"),
        ("password: hunter2", "hunter2"),
        ("postgres://joe:hunter2@db:5432/x", "hunter2"),
        ("Authorization: Bearer abcdefghij", "abcdefghij"),
        ("host=db user=joe password=hunter2 dbname=x", "hunter2"),
        ("https://files/x?access_token=abcdef&n=1", "abcdef"),
        ("wandb_api_key: abcdefgh12", "abcdefgh12"),
        (r'sent "{\"password\": \"hunter2\"}"', "hunter2"),
        (r"password = 'a\b'", r"a\b"),
        ('headers={"Authorization": "Basic am9lOmh1bnRlcjI="}', "am9lOmh1bnRlcjI="),
        ("hf_" + "a1" * 15, "hf_" + "a1" * 15),
        ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("x ghp_" + "a1" * 18, "ghp_" + "a1" * 18),
        ("sk-proj-" + "a1" * 18, "sk-proj-" + "a1" * 18),
        (f"wandb login {HEX40}", HEX40),
        ("eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSM", "SflKxwRJSM"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", "\nabc\n"),
    ],
)
def test_secret_is_blanked(text: str, secret: str) -> None:
    """Each known look of a secret is replaced, and something says that it was."""
    clean = redact(text)
    assert secret not in clean
    assert BLANK in clean


@pytest.mark.parametrize(
    "text",
    [
        "python train.py --max-tokens 512 --pad-token-id 0 --pad-token '<pad>' --tokenizer gpt2",
        "python train.py --lr 1e-4 --keys a,b --data s3://bucket/key",
        "token = tokenizer.next_token(secret_of=self)",
        "for token in tokens: key = cache[token]",
        "def login(password: str, token: str) -> None:",
        "login(password=args.password, token=tokenizer.next_token())",
        "prompt_token=512 completion_token=12 use_token=None",
        "pad_token: <pad> token: hello",
        f"commit {HEX40}",
        "https://host:8080/path tcp://127.0.0.1:29500",
        'all_reduce (torch/distributed/distributed_c10d.py:3252) "MainThread"',
        "self.token_embedding = nn.Embedding(vocab, dim)",
        "desk-top-and-some-more-of-it-that-is-long",
    ],
)
def test_plain_text_stays_verbatim(text: str) -> None:
    """A quote that holds no secret is not altered by a single character."""
    assert redact(text) == text


def test_environment_is_an_allow_list() -> None:
    """Variables that are not listed never leave the process, nor listed ones that name a secret."""
    environ = {
        "RANK": "3",
        "NCCL_DEBUG": "INFO",
        "TORCH_HUB_TOKEN": "x",
        "HOME": "/root",
        "AWS_SECRET_ACCESS_KEY": "y",
        "SLURM_JOB_ID": "7",
        "SLURM_JWT": "z",
        "OMPI_MCA_orte_hnp_uri": "1.0;tcp://",
    }
    assert redact_environment(environ) == {"NCCL_DEBUG": "INFO", "RANK": "3", "SLURM_JOB_ID": "7"}
    assert not allowed("PATH")


def test_url_password_inside_an_allowed_variable_is_blanked() -> None:
    """Values of allowed variables go through the patterns as well."""
    clean = redact_environment({"TORCH_STORE": "redis://u:hunter2@h"})
    assert clean == {"TORCH_STORE": f"redis://u:{BLANK}@h"}


def test_command_line_is_one_redacted_line() -> None:
    """Arguments are joined as a shell takes them; a secret argument of two words goes whole."""
    assert redact_command(["python", "t.py", "--token", "a b"]) == f"python t.py --token '{BLANK}'"
    assert len(redact_command(["x" * 9000])) == 2000


def test_bytes_that_are_no_text_survive() -> None:
    """Output of a tool with broken UTF-8 is redacted and otherwise byte for byte the same."""
    assert redact_bytes(b"\xff\x00 --token=abc") == b"\xff\x00 --token=" + BLANK.encode()
    untouched = b"\xff plain"
    assert redact_bytes(untouched) is untouched


def test_no_text_makes_it_slow() -> None:
    """Long runs of name-like text, as found in minified files, take milliseconds."""
    text = "token " + "a_b." * 20_000 + " key " + "--" * 20_000
    started = time.perf_counter()
    redact(text)
    assert time.perf_counter() - started < 2
