"""Who may ask: tokens, the names that a server without tokens answers to, and where it may listen."""

import hmac
import ipaddress
import os
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from gappletron.base.errors import UserError

# Characters of a token: shorter ones can be guessed.
LEAST_TOKEN = 16


class Token(NamedTuple):
    """A token, the name of who has it, and whether it may change models (not only decide and give feedback)."""

    secret: str
    name: str | None = None
    may_change: bool = True


def find_token(header: str | None, tokens: Sequence[Token]) -> Token | None:
    """Return the token that an Authorization header has. All are compared, in a time that tells nothing.

    >>> tokens = [Token("0123456789abcdef", "anna")]
    >>> find_token("Bearer 0123456789abcdef", tokens).name, find_token(None, tokens)
    ('anna', None)
    """
    kind, _, given = (header or "").partition(" ")
    matches = [token for token in tokens if hmac.compare_digest(given.strip().encode(), token.secret.encode())]
    return matches[0] if kind.lower() == "bearer" and matches else None


def is_local(host: str | None) -> bool:
    """Whether a Host header is a name of this machine.

    A page of a stranger, open in a browser on this machine, can send requests to a local server. It cannot read the
    answers, or send JSON, unless the server's name leads to this machine (DNS rebinding). So a server without tokens
    answers only to the names of this machine.

    >>> is_local("localhost:8080"), is_local("[::1]:8080"), is_local("evil.example")
    (True, True, False)
    """
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:  # brackets without an address
        return False


def is_loopback(host: str) -> bool:
    """Whether this is a name or an address that only this machine can reach.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.com")]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_host(host: str, tokens: Sequence[Token]) -> None:
    """Refuse to listen where others can reach the server, unless they need a token.

    >>> check_host("0.0.0.0", [])
    Traceback (most recent call last):
        ...
    gappletron.UserError: the host '0.0.0.0' can be reached from other machines, and there is no token: give \
--token-file, or stay on 127.0.0.1
    """
    if not tokens and not is_loopback(host):
        raise UserError(
            f"the host {host!r} can be reached from other machines, and there is no token: give --token-file, or stay "
            "on 127.0.0.1"
        )


def read_tokens(path: str | PathLike[str], *, may_change: bool = True) -> list[Token]:
    """Return the tokens of a file: one in each line, perhaps after the name of who has it, as in ``anna 5f2b9c...``.

    Empty lines and those that start with # are left out.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except PermissionError:
        raise UserError(
            f"the token file {str(path)!r} may not be read by the user of this process (number {os.getuid()}): let it "
            "belong to that user, with mode 0400"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the token file {str(path)!r} cannot be read ({error}): correct --token-file") from None
    lines = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        raise UserError(f"the token file {str(path)!r} has no token: write one, of {LEAST_TOKEN} characters or more")
    if any(len(words) > 2 or len(words[-1]) < LEAST_TOKEN or not words[-1].isascii() for words in lines):
        raise UserError(
            f"a token in {str(path)!r} is shorter than {LEAST_TOKEN} characters, or has others than ASCII, or more "
            "stands in its line than a name and a token: make one with `openssl rand -hex 32`"
        )
    return [Token(words[-1], words[0] if len(words) == 2 else None, may_change) for words in lines]
