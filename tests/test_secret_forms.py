"""Every form of secret that the plugins of detect-secrets know is blanked, too.

detect-secrets is not used at run time: it brings a client for HTTP and takes longer to import than
a small report takes altogether, and its forms are narrower than those here. So the forms are kept
in ``redact``, and what its maintainers add is seen here when a new version comes.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import detect_secrets.plugins
import pytest
from detect_secrets.plugins.base import RegexBasedDetector

from whyhang.analyzer.redact import redact

OF_NOTHING_SECRET = {"IPPublicDetector"}
"""Addresses of hosts are evidence here."""

HEX32, HEX64 = "0123456789abcdef" * 2, "0123456789abcdef" * 4
LETTERS = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hJ"
EXAMPLES = {
    "ArtifactoryDetector": f"curl -H X-JFrog-Art-Api: AKC{LETTERS}",
    "AWSKeyDetector": f"aws_secret_key = '{LETTERS}aB3dE6gH'",
    "AzureStorageKeyDetector": f"AccountKey={LETTERS * 2}{LETTERS[:22]}==",
    "BasicAuthDetector": "https://svc:pa55word@files/x",
    "CloudantDetector": f"cloudant_password = '{HEX64}'",
    "DiscordBotTokenDetector": f"discord MT{LETTERS[:22]}.G1b2c3.{LETTERS[:27]}",
    "GitHubTokenDetector": f"git clone with ghs_{LETTERS}abcd",
    "GitLabTokenDetector": f"register glrt-{LETTERS[:20]}",
    "IbmCloudIamDetector": f'ibm_cloud_iam_api_key = "{LETTERS}{LETTERS[:12]}"',
    "IbmCosHmacDetector": f'cos_hmac_secret_access_key = "{HEX32}{HEX32[:16]}"',
    "JwtTokenDetector": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTYifQ.c2lnbmF0dXJl",
    "MailchimpDetector": f"mail {HEX32}-us17",
    "NpmDetector": "//registry/:_authToken=01234567-89ab-cdef-0123-456789abcdef",
    "OpenAIDetector": f"sk-{LETTERS[:20]}T3BlbkFJ{LETTERS[:20]}",
    "PrivateKeyDetector": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXkt\n-----END",
    "PypiTokenDetector": f"pypi-AgEIcHlwaS5vcmc{LETTERS * 3}",
    "SendGridDetector": f"SG.{LETTERS[:22]}.{LETTERS}{LETTERS[:11]}",
    "SlackDetector": "xoxb-123456789012-abcdefghij",
    "SoftlayerDetector": f"http://api.softlayer.com/soap/v3.1/{HEX64}",
    "SquareOAuthDetector": f"sq0csp-{LETTERS}{LETTERS[:11]}",
    "StripeDetector": f"rk_live_{LETTERS[:24]}",
    "TelegramBotTokenDetector": f"bot123456789:AA{LETTERS}x",
    "TwilioKeyDetector": f"twilio SK{HEX32}",
}


def detectors() -> Iterator[RegexBasedDetector]:
    """Make each plugin that knows a form; those that guess by names or entropy are none."""
    for info in pkgutil.iter_modules(detect_secrets.plugins.__path__):
        module = importlib.import_module(f"detect_secrets.plugins.{info.name}")
        for kind in vars(module).values():
            if (
                isinstance(kind, type)
                and issubclass(kind, RegexBasedDetector)
                and kind.__module__ == module.__name__
                and "denylist" in vars(kind)
                and kind is not RegexBasedDetector
                and kind.__name__ not in OF_NOTHING_SECRET
            ):
                yield kind()


DETECTORS = {type(each).__name__: each for each in detectors()}


def test_each_plugin_has_an_example() -> None:
    """A new plugin is a new form: it wants an example here and a pattern there."""
    assert {*DETECTORS} == {*EXAMPLES}


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_a_plugin_detects_is_blanked(name: str) -> None:
    """Nothing of what the plugin takes for the secret is left."""
    text = EXAMPLES[name]
    secrets = {
        secret for line in text.split("\n") for secret in DETECTORS[name].analyze_string(line)
    }
    assert secrets, "the example is none"
    clean = redact(f"before {text} behind" if "\n" not in text else text)
    if name == "PrivateKeyDetector":
        secrets = {"b3BlbnNzaC1rZXkt"}  # the plugin's secret is the heading
    assert not [secret for secret in secrets if secret in clean], clean
