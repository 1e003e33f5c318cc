"""Who calls: the credential decides namespace and actor; a request body never does."""

from __future__ import annotations

import getpass
import hmac
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from loam_lab.errors import Unauthenticated
from loam_lab.transport import actor_signature


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller: whose jobs it sees, and the name that its events carry."""

    namespace: str
    actor: str


Who = Callable[[Mapping[str, str]], Principal]


def one_token(token: str, *, namespace: str = "default", actor: str | None = None) -> Who:
    """Everybody with the token of LOAM_HOME is the OS user, in one namespace, or whom that credential signed for."""
    expected = f"Bearer {token}".encode()
    principal = Principal(namespace, actor or _os_user())

    def who(headers: Mapping[str, str]) -> Principal:
        given = headers.get("authorization") or ""
        if not given:
            raise Unauthenticated("no credential: send 'Authorization: Bearer TOKEN'; the token is in LOAM_HOME/token")
        if not hmac.compare_digest(given.encode(), expected):
            raise Unauthenticated("wrong token: the server's is in LOAM_HOME/token. Check LOAM_HOME and LOAM_TOKEN")
        named = headers.get("loam-actor")
        return principal if not named else Principal(namespace, _signed(named, headers, token))

    return who


def _signed(named: str, headers: Mapping[str, str], token: str) -> str:
    """The actor that a face names; it must have signed the name with its own credential."""
    given = headers.get("loam-actor-signature") or ""
    if not hmac.compare_digest(given.encode(), actor_signature(token, named).encode()):
        raise Unauthenticated("loam-actor is not signed with the credential that came with it; leave it out")
    return unquote(named, errors="replace")[:200]


def token_file(path: Path) -> str:
    """The token in `path`, made on first use; readable by its owner only."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text(encoding="ascii").strip()
    token = secrets.token_urlsafe(32)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token)
        file.flush()
        os.fsync(file.fileno())
    return token


def _os_user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid-{os.getuid()}"
