"""The controllers of one quorum over their admin HTTP: any living one is found, and its leader is followed.

Blocks. A change carries a request id, by which the controllers know it again when its answer was lost; so it is sent
until it is answered or patience ends.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar
from urllib.parse import quote
from uuid import uuid4

import typer

from logherd.kit.errors import LogHerdError

__all__ = ["AdminOption", "Controllers", "ControllersError", "TokenOption", "group_path", "of_another_version"]

_DEFAULT_ADMIN = "127.0.0.1:8088"
_CONNECT_SECONDS = 2.0
_ANSWER_SECONDS = 20.0  # longer than the controllers' own deadline, so that they say what became of it
_PATIENCE_SECONDS = 10.0
_RETRY_SECONDS = 0.2
_ANSWER_BYTES_MAX = 64 << 20
_OK, _ACCEPTED, _UNAUTHORIZED, _MISSING, _UNKNOWN = 200, 202, 401, 404, 504
_DONE = (_OK, _ACCEPTED)
_OWN = "; only a broker has it that leads by itself, in the mode that the command is of, and does not heal now"

AdminOption = Annotated[
    list[str] | None,
    typer.Option(
        "--admin", envvar="LOGHERD_ADMIN", metavar="HOST:PORT",
        help="Admin address of a controller; may be given again, so that a living one is found; default: "
        f"{_DEFAULT_ADMIN}.",
    ),
]  # fmt: skip
TokenOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file", envvar="LOGHERD_ADMIN_TOKEN_FILE", metavar="FILE",
        help="File with the secret for changes, as the controllers' adminTokenFile.",
    ),
]  # fmt: skip

Document = dict[str, Any]
_Shape = TypeVar("_Shape")


class ControllersError(LogHerdError):
    """No controller did what was asked; the text says why, and whether it may have happened all the same."""


class _Unanswered(Exception):
    """Nothing came back; `sent`: so it is not known what was done."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


def group_path(cluster: str, name: str) -> str:
    """Where one group stands."""
    return f"/groups/{quote(cluster, safe='')}/{quote(name, safe='')}"


class _Found(NamedTuple):
    """Admin addresses of the leader and of one that lives, and why there is no leader."""

    leader: str | None
    living: str | None
    why: str


class Controllers:
    """Ask and change through whatever of `admins` answers; `option` gave them. `token_file` is read for each change.

    Raises: typer.BadParameter if an address is none; ControllersError from all calls.
    """

    def __init__(
        self, admins: Sequence[str] | None, token_file: Path | None = None, *, option: str = "--admin"
    ) -> None:
        from logherd.client.peers import parse_address

        self._admins = list(admins or [_DEFAULT_ADMIN])
        self._hint = "" if admins else f"; say where one is: {option}"
        self._token_file = token_file
        try:
            for each in self._admins:
                parse_address(each)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=option) from error

    def read(self, path: str, shape: type[_Shape]) -> _Shape:
        """The document at `path`, from the leader if it can be asked, else from any living controller."""
        found = self._find()
        admin = found.leader or found.living
        if admin is None:
            raise ControllersError(f"no controller answers: {found.why}{self._hint}")
        try:
            status, document = self._exchange(admin, "GET", path)
        except _Unanswered as error:
            raise ControllersError(f"{admin}: no answer: {error}") from error
        if status != _OK:
            raise ControllersError(_sentence(status, document))
        return _shaped(document, shape)

    def change(self, path: str, body: Document, shape: type[_Shape]) -> _Shape:
        """The leader's answer to an action; waits some seconds for a leader. Raises ControllersError if refused."""
        token, body = self._token(), {**body, "requestId": uuid4().hex}
        until = time.monotonic() + _PATIENCE_SECONDS
        lost = False
        while True:
            found = self._find()
            why = found.why
            if found.leader is not None:
                try:
                    status, document = self._exchange(found.leader, "POST", path, body, token)
                except _Unanswered as error:
                    lost, why = lost or error.sent, f"{found.leader}: {error}"
                else:
                    if status in _DONE:
                        return _shaped(document, shape)
                    lost, why = lost or status == _UNKNOWN, _sentence(status, document)
                    if status != _UNKNOWN and "leader" not in document:  # with it: this one does not lead, or not yet
                        raise ControllersError(f"{why}; an earlier try was not answered" if lost else why)
            outcome = "the outcome is unknown, look before repeating" if lost else "nothing was done"
            if time.monotonic() > until or (found.living is None and not lost):
                raise ControllersError(f"no leader of the controllers answers, {outcome}: {why}")
            time.sleep(_RETRY_SECONDS)

    def read_each(self, path: str, shape: type[_Shape]) -> list[_Shape]:
        """The document at `path` from every one of the admin addresses. Raises ControllersError if one is missing."""
        return [_shaped(self._each(admin, "GET", path), shape) for admin in self._admins]

    def change_each(self, path: str, body: Document, shape: type[_Shape]) -> list[_Shape]:
        """The same action at every one of the admin addresses. Raises ControllersError at the first refusal."""
        token, body = self._token(), {**body, "requestId": uuid4().hex}
        return [_shaped(self._each(admin, "POST", path, body, token), shape) for admin in self._admins]

    def _each(
        self, admin: str, method: str, path: str, body: Document | None = None, token: str | None = None
    ) -> Document:
        try:
            status, document = self._exchange(admin, method, path, body, token)
        except _Unanswered as error:
            raise ControllersError(f"{admin}: no answer: {error}") from error
        if status not in _DONE:
            own = status == _MISSING and path.startswith("/replica/")
            raise ControllersError(f"{admin}: {_sentence(status, document)}{_OWN if own else ''}")
        return document

    def statuses(self) -> list[Document | None]:
        """GET /status of every one of the admin addresses, which may be brokers'; None if it does not answer."""
        return [self._status(admin) for admin in self._admins]

    def _status(self, admin: str) -> Document | None:
        try:
            return self._exchange(admin, "GET", "/status")[1]
        except _Unanswered:
            return None

    def await_leader(self) -> None:
        """Return as soon as somebody leads, or when patience ends."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while self._find().leader is None and time.monotonic() < until:
            time.sleep(_RETRY_SECONDS)

    def _find(self) -> _Found:
        told, seen, faults = list(self._admins), set[str](), list[str]()
        living: str | None = None
        while told:
            admin = told.pop(0)
            if admin in seen:
                continue
            seen.add(admin)
            try:
                _, status = self._exchange(admin, "GET", "/status")
            except _Unanswered as error:
                faults.append(f"{admin}: {error}")
                continue
            if "brokerId" in status:
                faults.append(f"{admin}: this is a broker's admin port, not a controller's")
                continue
            living = living or admin
            told_leader = status.get("leader")
            leader = told_leader if isinstance(told_leader, dict) else {}
            if leader and leader.get("node") == status.get("node"):
                return _Found(admin, admin, "")
            if leader.get("admin"):
                told.insert(0, str(leader["admin"]))
            faults.append(_why_not(admin, leader))
        return _Found(None, living, "; ".join(faults))

    def _token(self) -> str | None:
        if self._token_file is None:
            return None
        try:
            token = self._token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ControllersError(f"{self._token_file}: the token cannot be read: {reason}") from error
        if not token or not token.isprintable():  # no header carries it, and whoever refuses that would show it
            raise ControllersError(f"{self._token_file}: holds no token; one line of printable ASCII is right")
        return token

    def _exchange(
        self, admin: str, method: str, path: str, body: Document | None = None, token: str | None = None
    ) -> tuple[int, Document]:
        """Status and JSON object. Raises _Unanswered."""
        from http.client import BadStatusLine, HTTPConnection, HTTPException

        from logherd.client.peers import parse_address

        sent = False
        headers = {} if body is None else {"content-type": "application/json"}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        connection: HTTPConnection | None = None
        try:
            connection = HTTPConnection(*parse_address(admin), timeout=_CONNECT_SECONDS)
            connection.connect()
            sent = True
            connection.sock.settimeout(_ANSWER_SECONDS)
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            document = json.loads(answer.read(_ANSWER_BYTES_MAX))
        except BadStatusLine as error:  # so does every other port of a controller or broker; or it has just died
            hint = "; is this an admin port?" if method == "GET" else ""
            raise _Unanswered(f"no answer in HTTP{hint}", sent=sent) from error
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise _Unanswered(reason, sent=sent) from error
        finally:
            if connection is not None:
                connection.close()
        if not isinstance(document, dict):
            raise _Unanswered(f"{path} holds no JSON object", sent=True)
        return answer.status, document


def of_another_version(what: str, why: object) -> ControllersError:
    """That a broker or controller answers with another document than is known here."""
    return ControllersError(f"a {what} of another version answers in another form: {why}")


def _shaped(document: Document, shape: type[_Shape]) -> _Shape:
    import msgspec

    try:
        return msgspec.convert(document, shape)
    except msgspec.ValidationError as error:
        raise of_another_version("controller", error) from error


def _why_not(admin: str, leader: Document) -> str:
    if not leader:
        return f"{admin}: no leader is known"
    if leader.get("admin"):
        return f"{admin}: {leader.get('node')} leads"
    return f"{admin}: {leader.get('node')} leads, whose admin address is not known there; name it with --admin"


def _sentence(status: int, document: Document) -> str:
    """What a refusal says, for people."""
    said = str(document.get("error") or f"status {status}")
    return f"{said}; name it with --token-file" if status == _UNAUTHORIZED else said
