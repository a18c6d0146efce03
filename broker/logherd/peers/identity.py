"""Who a replica is, and the file in its data directory that says so:

    identity.json {"format":1,"cluster":"c1","name":"ctl-0","incarnation":"9f0c...","founding":null,"founded":false}
    founding: {"founders":["ctl-0.9f0c...", ...],"reset":0} once they are known; founded: the log has been prepared

An incarnation is drawn when the directory is made, so that a wiped replica comes back as another one. The founders stay
in the file for good: whoever was not told yet is told them, and a directory of another founding is recognised.
"""

import re
from dataclasses import dataclass, replace
from secrets import token_hex

import msgspec

from logherd.peers.errors import IdentityError
from logherd.replication.messages import ReplicaId
from logherd.store.files import Files
from logherd.store.state_file import StateFileError, read_state
from logherd.store.whole_file import replace_file

__all__ = ["Identity", "IdentityFile", "keep_identity", "make_identity", "name_of", "open_identity"]

FORMAT = 1
FILE_NAME = "identity.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,126}")
_IDENTITY = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,126})\.([0-9a-f]{16})")


def make_identity(name: str) -> ReplicaId:
    """A new incarnation of the replica called `name`. Raises: IdentityError for a name that does not qualify."""
    if _NAME.fullmatch(name) is None:
        raise IdentityError(f"{name!r} is no name for a node: 1 to 127 of A-Z a-z 0-9 . _ -, a letter or digit first")
    return ReplicaId(f"{name}.{token_hex(8)}")


def name_of(replica: str) -> str:
    """The name without the incarnation. Raises: IdentityError if that is no identity."""
    found = _IDENTITY.fullmatch(replica)
    if found is None:
        raise IdentityError(f"{replica[:200]!r} is no identity: a name, a dot and 16 hex digits")
    return found[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What the file says.

    `founders` is None until this replica has been told them. `founded`: its log holds what they begin with. A replica
    that is not among its founders is a stranger: it has no vote until the log names it. `reset` is the cluster's as of
    then.
    """

    cluster: str
    replica: ReplicaId
    founders: tuple[ReplicaId, ...] | None = None
    reset: int = 0
    founded: bool = False

    @property
    def name(self) -> str:
        """The configured name."""
        return name_of(self.replica)

    @property
    def stranger(self) -> bool:
        """Whether the group was founded without this incarnation."""
        return self.founders is not None and self.replica not in self.founders


class _Founding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    founders: tuple[str, ...]
    reset: int


class IdentityFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file's content."""

    format: int
    cluster: str
    name: str
    incarnation: str
    founding: _Founding | None = None
    founded: bool = False


def open_identity(files: Files, directory: str, *, cluster: str, name: str, log_empty: bool) -> Identity:
    """Read who this directory is, or draw it, durably, when the directory is new. Blocks.

    `log_empty`: the replica's log holds no promise yet. `directory` exists.

    Raises: IdentityError if the file is another cluster's or node's, damaged or of a later release, or if the log and
    the file contradict each other, because one of them was lost; StoreFull, OSError.
    """
    path = f"{directory}/{FILE_NAME}"
    found = _read(files, path)
    if found is None:
        if not log_empty:
            raise IdentityError(f"{path} is gone, but the log beside it holds promises: move the directory away")
        identity = Identity(cluster=cluster, replica=make_identity(name))
        keep_identity(files, directory, identity)
        return identity
    files.sync_dir(directory)  # a process may have died between its rename and this: what we say of it must last
    _check(path, found, cluster=cluster, name=name, log_empty=log_empty)
    return found


def keep_identity(files: Files, directory: str, identity: Identity) -> Identity:
    """Replace the file, durably and whole; gives what was kept. Blocks. Raises: StoreFull, OSError."""
    founders = identity.founders
    content = IdentityFile(
        format=FORMAT,
        cluster=identity.cluster,
        name=identity.name,
        incarnation=identity.replica.rpartition(".")[2],
        founding=None if founders is None else _Founding(founders=founders, reset=identity.reset),
        founded=identity.founded,
    )
    replace_file(files, directory, FILE_NAME, (msgspec.json.encode(content),))
    return identity


def _read(files: Files, path: str) -> Identity | None:
    try:
        content = read_state(files, path, IdentityFile, known=FORMAT)
    except StateFileError as error:
        raise IdentityError(str(error)) from error
    if content is None:
        return None
    replica = ReplicaId(f"{content.name}.{content.incarnation}")
    founding = content.founding
    identity = Identity(cluster=content.cluster, replica=replica, founded=content.founded)
    if founding is not None:
        founders = tuple(ReplicaId(founder) for founder in founding.founders)
        identity = replace(identity, founders=founders, reset=founding.reset)
    for known in (replica, *(identity.founders or ())):
        name_of(known)
    if identity.founded and identity.founders is None:
        raise IdentityError(f"{path} is damaged: founded, but by nobody")
    return identity


def _check(path: str, found: Identity, *, cluster: str, name: str, log_empty: bool) -> None:
    if found.cluster != cluster:
        raise IdentityError(f"{path} belongs to the cluster {found.cluster!r}, not to {cluster!r}")
    if found.name != name:
        raise IdentityError(f"{path} belongs to the node {found.name!r}, not to {name!r}")
    if found.founded and log_empty:
        raise IdentityError(
            f"{path} says that {found.replica} has joined its group, but the log beside it is empty: what it promised "
            "is lost. Move the directory away and let this node join as a new member"
        )
    if found.founders is None and not log_empty:
        raise IdentityError(f"{path} knows no founders, but the log beside it holds promises: one of them was replaced")
