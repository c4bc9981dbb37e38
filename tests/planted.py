"""Secrets and names, as they stand in the texts of a job, for tests that search for them."""

from __future__ import annotations

MARK = "Vq7Lm2Xp"
"""A part of each secret, in some spelling."""

SECRETS = {
    "url": "postgres://svc:Vq7Lm2Xp@db1:5432/runs",
    "bearer": "Authorization: Bearer Vq7Lm2Xpabcd",
    "jwt": "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKVq7Lm2Xp",
    "variable": "WANDB_API_KEY=Vq7Lm2Xp",
    "option": "--hf-token Vq7Lm2Xp",
    "json": '{"password": "Vq7Lm2Xp"}',
    "literal": 'password = """Vq7Lm2Xp"""',
    "call": 'client.login("svc", "Vq7Lm2Xp")',
    "curl": "curl -u svc:Vq7Lm2Xp https://files/x",
    "account": "DefaultEndpointsProtocol=https;AccountKey=Vq7Lm2Xp8888==;",
    "signed url": "https://acct.blob/x?se=2026&sig=Vq7Lm2Xp%2B88",
    "hub": "hf_Vq7Lm2XpVq7Lm2XpVq7Lm2Xp",
    "aws": "AKIAVQ7LM2XPEXAMPLE1",
    "git": "ghp_Vq7Lm2XpVq7Lm2XpVq7Lm2Xp",
    "lab": "glpat-Vq7Lm2XpVq7Lm2Xp",
    "openai": "sk-proj-Vq7Lm2XpVq7Lm2Xp",
    "stripe": "sk_live_Vq7Lm2XpVq7Lm2Xp",
    "slack": "https://hooks.slack.com/services/T000/B000/Vq7Lm2Xp",
    "npm": "npm_Vq7Lm2XpVq7Lm2XpVq7Lm2XpVq7Lm2Xp1234",
    "sendgrid": "SG.Vq7Lm2XpVq7Lm2Xp.Vq7Lm2XpVq7Lm2Xp",
    "telegram": "bot123456789:AAVq7Lm2XpVq7Lm2XpVq7Lm2XpVq7Lm2Xp1",
}
"""By kind: a text as it stands in evidence, with the secret in it."""


def holds_a_secret(text: str | bytes) -> bool:
    """Return whether any of the planted secrets is in a text."""
    lower = text.lower()
    return MARK.lower() in lower if isinstance(lower, str) else MARK.lower().encode() in lower


KEY = b"a key of sixteen"
NAMES = ("zanzibar", "quetzal", "gpu-x7-031", "mirabell", "hornisse", "10.20.30.41", "okapi7")
LOG = """\
gpu-x7-031:4242:4243 [0] NCCL INFO Bootstrap : Using eth0:10.20.30.41<0>
gpu-x7-031:4242:4243 [0] NCCL INFO NET/Socket : Connect to 10.20.30.42<29500> failed
[rank0]: Traceback (most recent call last):
[rank0]:   File "/home/zanzibar/quetzal/train_quetzal.py", line 31, in reduce_gradients
[rank0]:     dist.all_reduce(x)  # see https://wiki.hornisse.org/zanzibar, zanzibar@hornisse.org
[rank0]: RuntimeError: no connection to gpu-x7-031.hornisse.org, asked by okapi7@gpu-x7-031
NodeList=mirabell[01-03] JobName=x UserId=okapi7(1001)
mirabell02 does not answer; zanzibar looks into s3://quetzal/zanzibar/run.pt
"""
